// Models whose weight w is an initializer and, as the default of an input, an input, too; with what
// they mean when w is a constant or an input alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/model_builder.h"

namespace tandem::test {

enum class Weight { kDefault, kConstant, kInput };

// y of x [N,...] and of w.
struct DefaultModel {
  std::string name;
  graph::DimVector x;
  Shape w;
  graph::DimVector y;
  std::function<void(ModelBuilder&)> nodes;
};

// A product, a convolution, folds, a fused operand and bodies that capture w.
std::vector<DefaultModel> DefaultModels();

// What w is in the file.
Tensor DefaultOf(const DefaultModel& c);

ModelBuilder Build(const DefaultModel& c, Weight weight);

}  // namespace tandem::test
