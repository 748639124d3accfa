// DepthToSpace and SpaceToDepth (ai.onnx, opset 1; mode CRD since 11): blocks of pixels to channels
// and back.
#include "engine/kernels/move/permute.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum class Direction : uint8_t { kToSpaceDcr, kToSpaceCrd, kToDepth };

class BlockMove final : public Operator {
 public:
  static std::shared_ptr<const Operator> ParseToSpace(NodeReader& reader) {
    auto op = std::make_shared<BlockMove>();
    op->ReadBlock(reader);
    const std::string mode = reader.opset() >= 11 ? reader.String("mode", "DCR") : "DCR";
    if (mode == "CRD") {
      op->direction_ = Direction::kToSpaceCrd;
    } else if (mode != "DCR") {
      reader.Fail(InvalidArgument("attribute 'mode' is '{}' where DCR or CRD is expected", mode));
    }
    return op;
  }

  static std::shared_ptr<const Operator> ParseToDepth(NodeReader& reader) {
    auto op = std::make_shared<BlockMove>();
    op->ReadBlock(reader);
    op->direction_ = Direction::kToDepth;
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    if (!x.dims) {
      context.SetOutput(0, x.dtype, UnknownDims(4));
      return absl::OkStatus();
    }
    if (x.rank() != 4) {
      return InvalidArgument("input 0 is {} where rank 4 is expected", ToString(x));
    }
    graph::DimVector dims = *x.dims;
    if (direction_ == Direction::kToDepth) {
      dims[1] = dims[1] * graph::Dim(block_ * block_);
      RETURN_IF_ERROR(Divide(dims[2], block_, "height"));
      RETURN_IF_ERROR(Divide(dims[3], block_, "width"));
    } else {
      RETURN_IF_ERROR(Divide(dims[1], block_ * block_, "channel extent"));
      dims[2] = dims[2] * graph::Dim(block_);
      dims[3] = dims[3] * graph::Dim(block_);
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const BlockMove self = *this;
    return MakeMoveStep(context, "move.blocks",
                        [self](StepContext& run, std::span<const MutableTensorView> outputs) {
                          const TensorView& x = run.input(0);
                          CopyRegion({.axes = self.AxesOf(x.shape())}, x, outputs[0],
                                     run.parallel());
                          return absl::OkStatus();
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (query.axes[0] == 0) return BatchAnswer::All(query, 0);
    return BatchAnswer::Decline("the batch is not on axis 0");
  }

 private:
  void ReadBlock(NodeReader& reader) {
    block_ = reader.RequiredInt("blocksize");
    constexpr int64_t kMost = 1 << 15;
    if (block_ < 1 || block_ > kMost) {
      reader.Fail(
          InvalidArgument("attribute 'blocksize' is {} where 1 to {} are expected", block_, kMost));
      block_ = 1;
    }
  }

  static Status Divide(graph::Dim& dim, int64_t by, std::string_view what) {
    const graph::Dim quotient = ExactDiv(dim, by);
    if (dim.is_number() && !quotient.is_number()) {
      return InvalidArgument("the {} is {} where a multiple of {} is expected", what, dim.number(),
                             by);
    }
    dim = quotient;
    return absl::OkStatus();
  }

  kernels::StridedAxes AxesOf(const Shape& x) const {
    const int64_t b = block_;
    const int64_t depth = x[1] / (b * b);
    switch (direction_) {
      case Direction::kToSpaceDcr:
        return Permuted({x[0], b, b, depth, x[2], x[3]}, {0, 3, 4, 1, 5, 2});
      case Direction::kToSpaceCrd:
        return Permuted({x[0], depth, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3});
      case Direction::kToDepth:
        return Permuted({x[0], x[1], x[2] / b, b, x[3] / b, b}, {0, 3, 5, 1, 2, 4});
    }
    return {};
  }

  static kernels::StridedAxes Permuted(std::initializer_list<int64_t> extents,
                                       std::initializer_list<int> order) {
    return kernels::PermutationAxes({extents.begin(), extents.size()},
                                    {order.begin(), order.size()});
  }

  Direction direction_ = Direction::kToSpaceDcr;
  int64_t block_ = 1;
};

}  // namespace

void RegisterDepthToSpace(OpRegistry& registry) {
  registry.Add({.op_type = "DepthToSpace",
                .versions = {1, 11, 13},
                .parse = BlockMove::ParseToSpace,
                .doc = "Channels become blocks of pixels."});
  registry.Add({.op_type = "SpaceToDepth",
                .versions = {1, 13},
                .parse = BlockMove::ParseToDepth,
                .doc = "Blocks of pixels become channels."});
}

}  // namespace tandem::ops
