// Binds and runs an operator as a plan does: with constants that are packed away, runtime weights,
// fused stages and channels-last views.
#pragma once

#include <string>
#include <vector>

#include "engine/base/cpu.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace tandem::test {

// Which views are channels-last; the numbers given and returned stay native.
enum ChannelsLastPorts { kNoPort = 0, kInputZero = 1, kOutput = 2, kOperands = 4 };

struct BoundCall {
  std::string op_type;
  int opset = 17;
  graph::Attributes attributes;
  Shape out;
  // Its tensor is there while binding only and packed exactly once; read as it is by reference
  // kernels, which pack nothing.
  int constant_port = -1;
  Isa isa = DetectIsa();
  int own_inputs = 2;  // inputs of the operator itself; operands of the epilogue follow
  std::vector<graph::EpilogueStage> epilogue;
  int channels_last = kNoPort;
};

Tensor BindAndRun(const BoundCall& call, const std::vector<Tensor>& inputs);

}  // namespace tandem::test
