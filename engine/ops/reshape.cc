// Reshape (ai.onnx, opset 5; allowzero since 14): the same elements under another shape.
#include <fmt/ranges.h>

#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Reshape final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Reshape>();
    if (reader.opset() >= 14) op->allow_zero_ = reader.Flag("allowzero", false);
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    ASSIGN_OR_RETURN(const int rank, RankFromVector(context, 1, "the shape (input 1)"));
    const std::optional<graph::DimVector> wanted = context.Content(1);
    if (!wanted) {
      context.SetOutput(0, x.dtype, rank < 0 ? std::nullopt : std::optional(UnknownDims(rank)));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(graph::DimVector dims, Resolve(context.dims(0), *wanted));
    context.SetOutput(0, x.dtype, std::move(dims));
    PassContent(context);
    return absl::OkStatus();
  }

  Traits traits() const override { return {.view = true}; }

  BatchAnswer Batch(const BatchQuery& query) const override { return BatchOfReshape(query); }

  bool ReadsShape(int port) const override { return port == 1; }

 private:
  // What is left of the extents on both sides when copied ones have been taken away.
  struct Rest {
    std::vector<graph::Dim> in;
    std::vector<graph::Dim> out;
    std::optional<size_t> inferred;  // the axis of -1
  };

  StatusOr<graph::DimVector> Resolve(const graph::DimVector* in,
                                     const graph::DimVector& wanted) const {
    graph::DimVector dims = wanted;
    Rest rest;
    std::vector<bool> copied(in == nullptr ? 0 : in->size(), false);
    bool literal_zero = false;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      graph::Dim& dim = dims[axis];
      const int64_t number = dim.is_number() ? dim.number() : 1;
      if (number < -1) return Wrong(wanted, "an extent below -1");
      if (number == -1) {
        if (rest.inferred) return Wrong(wanted, "more than one -1");
        rest.inferred = axis;
      } else if (number == 0 && !allow_zero_) {
        RETURN_IF_ERROR(CopyExtent(in, axis, wanted, dim));
        if (in != nullptr) copied[axis] = true;
      } else {
        literal_zero = literal_zero || number == 0;
        rest.out.push_back(dim);
      }
    }
    if (rest.inferred && literal_zero) {
      return Wrong(wanted, "both 0 and -1 with allowzero = 1, which leaves the extent open");
    }
    if (in == nullptr) {
      if (rest.inferred) dims[*rest.inferred] = graph::Dim();
      return dims;
    }
    for (size_t axis = 0; axis < in->size(); ++axis) {
      if (!copied[axis]) rest.in.push_back((*in)[axis]);
    }
    return Complete(*in, wanted, rest, std::move(dims));
  }

  static Status CopyExtent(const graph::DimVector* in, size_t axis, const graph::DimVector& wanted,
                           graph::Dim& dim) {
    if (in == nullptr) {
      dim = graph::Dim();
      return absl::OkStatus();
    }
    if (axis >= in->size()) {
      return InvalidArgument("shape {} copies extent {} of an input of shape {}",
                             graph::ToString(wanted), axis, graph::ToString(*in));
    }
    dim = (*in)[axis];
    return absl::OkStatus();
  }

  // Finds the extent of -1, or checks that as many elements come out as went in.
  static StatusOr<graph::DimVector> Complete(const graph::DimVector& in,
                                             const graph::DimVector& wanted, const Rest& rest,
                                             graph::DimVector dims) {
    const graph::Dim quotient = Quotient(rest.in, rest.out);
    const bool numbers = AllNumbers(rest.in) && AllNumbers(rest.out);
    if (rest.inferred) {
      if (numbers && !quotient.is_number()) return Mismatch(in, wanted);
      dims[*rest.inferred] = quotient;
      return dims;
    }
    const bool both_empty = HasZero(rest.in) && HasZero(rest.out);
    if (both_empty) return dims;
    if (quotient.is_number() && quotient.number() != 1) return Mismatch(in, wanted);
    if (numbers && !quotient.is_number()) return Mismatch(in, wanted);
    return dims;
  }

  static bool AllNumbers(const std::vector<graph::Dim>& dims) {
    for (const graph::Dim& dim : dims) {
      if (!dim.is_number()) return false;
    }
    return true;
  }

  static bool HasZero(const std::vector<graph::Dim>& dims) {
    for (const graph::Dim& dim : dims) {
      if (dim.is_number() && dim.number() == 0) return true;
    }
    return false;
  }

  static Status Wrong(const graph::DimVector& wanted, std::string_view what) {
    return InvalidArgument("shape {} has {}", graph::ToString(wanted), what);
  }

  static Status Mismatch(const graph::DimVector& in, const graph::DimVector& wanted) {
    return InvalidArgument("an input of shape {} does not have the elements of shape {}",
                           graph::ToString(in), graph::ToString(wanted));
  }

  bool allow_zero_ = false;
};

}  // namespace

void RegisterReshape(OpRegistry& registry) {
  registry.Add({.op_type = "Reshape",
                .versions = {5, 13, 14, 19, 21},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = Reshape::Parse,
                .doc = "The elements of the input under another shape."});
}

}  // namespace tandem::ops
