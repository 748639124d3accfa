#include "engine/ops/recurrent_step.h"

#include "engine/base/arena.h"
#include "engine/kernels/gemm/gemm.h"

namespace tandem::ops {
namespace {

using kernels::RecurrentSize;
using Ports = RecurrentPorts;

// Where the rows of X, Y and the states lie.
struct Geometry {
  RecurrentSize size;
  int64_t directions = 1;
  SequenceLayout layout = SequenceLayout::kStepsFirst;

  Geometry(const RecurrentOptions& options, const Shape& x, const Shape& r)
      : directions(static_cast<int64_t>(options.directions.size())), layout(options.layout) {
    const bool steps_first = layout == SequenceLayout::kStepsFirst;
    size = {steps_first ? x[0] : x[1], steps_first ? x[1] : x[0], x[2], r[2]};
  }

  template <typename T>
  kernels::TimeRows<const T> Inputs(const T* x) const {
    return layout == SequenceLayout::kStepsFirst
               ? kernels::TimeRows<const T>{x, size.items * size.input, size.input}
               : kernels::TimeRows<const T>{x, size.input, size.steps * size.input};
  }
  template <typename T>
  kernels::TimeRows<T> Outputs(T* y, int64_t direction) const {
    if (y == nullptr) return {};
    const int64_t row = size.hidden;
    return layout == SequenceLayout::kStepsFirst
               ? kernels::TimeRows<T>{y + direction * size.items * row,
                                      directions * size.items * row, row}
               : kernels::TimeRows<T>{y + direction * row, directions * row,
                                      size.steps * directions * row};
  }
  template <typename T>
  kernels::ItemRows<T> States(T* states, int64_t direction) const {
    if (states == nullptr) return {};
    const int64_t row = size.hidden;
    return layout == SequenceLayout::kStepsFirst
               ? kernels::ItemRows<T>{states + direction * size.items * row, row}
               : kernels::ItemRows<T>{states + direction * row, directions * row};
  }
};

// Elements of the gates of one direction, over all steps.
int64_t Gates(kernels::CellKind kind, const RecurrentSize& size) {
  return size.steps * size.items * kernels::GateCount(kind) * size.hidden;
}

// Of one direction.
int64_t MultiplyAdds(kernels::CellKind kind, const RecurrentSize& size) {
  return Gates(kind, size) * (size.input + size.hidden);
}

template <typename T>
const T* InputOf(const StepContext& context, int port) {
  return context.has_input(port) ? context.input(port).data<T>() : nullptr;
}

template <typename T>
T* OutputOf(const StepContext& context, int port) {
  const MutableTensorView& output = context.output(port);
  return output.dtype() == DType::kUndefined ? nullptr : output.mutable_data<T>();
}

Status CheckLengths(const StepContext& context, int64_t steps) {
  if (!context.has_input(Ports::kLengths)) return absl::OkStatus();
  for (const int32_t length : context.input(Ports::kLengths).span<int32_t>()) {
    if (length >= 0 && length <= steps) continue;
    return InvalidArgument("sequence_lens holds {} where 0 to {}, the steps of X, are expected",
                           length, steps);
  }
  return absl::OkStatus();
}

template <typename T>
kernels::RecurrentProblem<T> ProblemOf(const RecurrentOptions& options, const Geometry& geometry,
                                       const StepContext& context, int64_t direction) {
  const RecurrentDirection& own = options.directions[static_cast<size_t>(direction)];
  const int64_t hidden = geometry.size.hidden;
  kernels::RecurrentProblem<T> problem;
  problem.cell = own.cell;
  problem.size = geometry.size;
  problem.order = own.order;
  problem.lengths = InputOf<int32_t>(context, Ports::kLengths);
  problem.x = geometry.Inputs(context.input(Ports::kX).template data<T>());
  if (const T* bias = InputOf<T>(context, Ports::kB)) {
    problem.bias = bias + direction * 2 * kernels::GateCount(own.cell.kind) * hidden;
  }
  if (const T* peepholes = InputOf<T>(context, Ports::kP)) {
    problem.peepholes = peepholes + direction * 3 * hidden;
  }
  problem.initial_h = geometry.States(InputOf<T>(context, Ports::kH), direction);
  problem.initial_c = geometry.States(InputOf<T>(context, Ports::kC), direction);
  problem.y = geometry.Outputs(OutputOf<T>(context, Ports::kY), direction);
  problem.last_h = geometry.States(OutputOf<T>(context, Ports::kLastH), direction);
  problem.last_c = geometry.States(OutputOf<T>(context, Ports::kLastC), direction);
  return problem;
}

std::string CellName(kernels::CellKind kind) {
  switch (kind) {
    case kernels::CellKind::kRnn:
      return "rnn";
    case kernels::CellKind::kGru:
      return "gru";
    case kernels::CellKind::kLstm:
      return "lstm";
  }
  return "?";
}

// On the reference kernel.
template <typename T>
class PlainRecurrentStep final : public Step {
 public:
  explicit PlainRecurrentStep(RecurrentOptions options) : options_(std::move(options)) {}

  std::string kernel() const override {
    return fmt::format("{}.{} reference", CellName(options_.kind()), DTypeName(kDTypeOf<T>));
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    return options_.directions.size() *
           ScratchOfOne(
               Geometry(options_, shapes.inputs[Ports::kX], shapes.inputs[Ports::kR]).size);
  }

  Status Run(StepContext& context) const override {
    const Geometry geometry(options_, context.input(Ports::kX).shape(),
                            context.input(Ports::kR).shape());
    RETURN_IF_ERROR(CheckLengths(context, geometry.size.steps));
    const int64_t rows = kernels::GateCount(options_.kind()) * geometry.size.hidden;
    const T* w = context.input(Ports::kW).data<T>();
    const T* r = context.input(Ports::kR).data<T>();
    const int64_t grain = GrainOf(kGrainSlowElements, MultiplyAdds(options_.kind(), geometry.size));
    context.parallel().For(geometry.directions, grain, [&](int64_t begin, int64_t end) {
      for (int64_t d = begin; d < end; ++d) {
        const size_t bytes = ScratchOfOne(geometry.size);
        kernels::RecurrentReference<T>(
            ProblemOf<T>(options_, geometry, context, d),
            {w + d * rows * geometry.size.input, r + d * rows * geometry.size.hidden},
            context.scratch().subspan(static_cast<size_t>(d) * bytes, bytes));
      }
    });
    return absl::OkStatus();
  }

 private:
  size_t ScratchOfOne(const RecurrentSize& size) const {
    return AlignUp(kernels::ReferenceScratchBytes<T>(options_.kind(), size));
  }

  RecurrentOptions options_;
};

// How one weight is packed for one direction.
struct PackedForm {
  int port;
  std::string_view name;
  int64_t (*floats)(Isa isa, kernels::CellKind kind, const RecurrentSize& size);
  void (*pack)(Isa isa, kernels::CellKind kind, const RecurrentSize& size, const float* native,
               float* packed);
};
constexpr PackedForm kFormOfW = {Ports::kW, "w", kernels::PackedWFloats, kernels::PackW};
constexpr PackedForm kFormOfR = {Ports::kR, "r", kernels::PackedRFloats, kernels::PackR};

// A weight [directions, gates * hidden, depth] that is packed: a constant at load, any other in
// each run into the scratch memory.
class PackedWeight {
 public:
  static StatusOr<PackedWeight> Bind(const PackedForm& form, kernels::CellKind kind,
                                     BindContext& context) {
    PackedWeight weight(form, kind, context.isa());
    if (const graph::ConstantRef constant = context.constant(form.port)) {
      weight.shape_ = constant->shape();
      ASSIGN_OR_RETURN(weight.pack_, context.MakePack(form.port, weight.Spec(*weight.shape_)));
    }
    return weight;
  }

  bool at_load() const { return pack_ != nullptr; }
  // The shape of the weight, which a step that holds its pack is not given.
  const Shape& ShapeAmong(const Shape& given) const { return shape_ ? *shape_ : given; }
  size_t ScratchBytes(const RecurrentSize& size) const { return at_load() ? 0 : Bytes(size); }

  const float* Packed(const StepContext& context, const RecurrentSize& size, int64_t direction,
                      std::byte* scratch) const {
    if (at_load()) {
      const size_t offset = static_cast<size_t>(direction) * Bytes(size);
      return reinterpret_cast<const float*>(pack_->buffer.data() + offset);
    }
    const TensorView& native = context.input(form_.port);
    auto* packed = reinterpret_cast<float*>(scratch);
    form_.pack(isa_, kind_, size, native.data<float>() + direction * native.shape().Product(1, 3),
               packed);
    return packed;
  }

 private:
  PackedWeight(const PackedForm& form, kernels::CellKind kind, Isa isa)
      : form_(form), kind_(kind), isa_(isa) {}

  size_t Bytes(const RecurrentSize& size) const {
    return AlignUp(static_cast<size_t>(form_.floats(isa_, kind_, size)) * sizeof(float));
  }

  PackSpec Spec(const Shape& shape) const {
    const RecurrentSize size{.input = shape[2], .hidden = shape[1] / kernels::GateCount(kind_)};
    PackSpec spec;
    spec.kernel = fmt::format("{}.f32", CellName(kind_));
    spec.parameters =
        fmt::format("{} {}", form_.name, kernels::PackFormat({isa_}, size.input, size.hidden));
    spec.bytes = static_cast<size_t>(shape[0]) * Bytes(size);
    spec.fill = [form = form_, kind = kind_, isa = isa_, size, bytes = Bytes(size)](
                    const TensorView& native, std::span<std::byte> packed) {
      const int64_t floats = native.shape().Product(1, 3);
      for (int64_t d = 0; d < native.shape()[0]; ++d) {
        form.pack(isa, kind, size, native.data<float>() + d * floats,
                  reinterpret_cast<float*>(packed.data() + static_cast<size_t>(d) * bytes));
      }
    };
    return spec;
  }

  PackedForm form_;
  kernels::CellKind kind_;
  Isa isa_;
  PackRef pack_;
  std::optional<Shape> shape_;
};

class RecurrentStep final : public Step {
 public:
  RecurrentStep(RecurrentOptions options, Isa isa, PackedWeight w, PackedWeight r)
      : options_(std::move(options)), isa_(isa), w_(std::move(w)), r_(std::move(r)) {}

  std::string kernel() const override {
    return fmt::format("{}.f32 {}{}", CellName(options_.kind()), IsaName(isa_),
                       w_.at_load() && r_.at_load() ? "" : " packing at run time");
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const Geometry geometry(options_, shapes.inputs[Ports::kX],
                            r_.ShapeAmong(shapes.inputs[Ports::kR]));
    return options_.directions.size() * PartsOf(geometry.size).bytes;
  }

  Status Run(StepContext& context) const override {
    const Geometry geometry(options_, context.input(Ports::kX).shape(),
                            r_.ShapeAmong(context.input(Ports::kR).shape()));
    RETURN_IF_ERROR(CheckLengths(context, geometry.size.steps));
    const int64_t work = MultiplyAdds(options_.kind(), geometry.size) +
                         Gates(options_.kind(), geometry.size) * kMultiplyAddsOfSlowElement;
    const int64_t grain = GrainOf(kGrainMultiplyAdds, work);
    context.parallel().For(geometry.directions, grain, [&](int64_t begin, int64_t end) {
      for (int64_t d = begin; d < end; ++d) RunDirection(context, geometry, d);
    });
    return absl::OkStatus();
  }

 private:
  // Of the scratch memory of one direction.
  struct Parts {
    size_t w;
    size_t r;
    size_t bytes;
  };
  Parts PartsOf(const RecurrentSize& size) const {
    const size_t w = AlignUp(kernels::RecurrentScratchBytes(options_.kind(), size));
    const size_t r = w + w_.ScratchBytes(size);
    return {w, r, r + r_.ScratchBytes(size)};
  }

  void RunDirection(const StepContext& context, const Geometry& geometry, int64_t direction) const {
    const Parts parts = PartsOf(geometry.size);
    std::byte* scratch = context.scratch().data() + static_cast<size_t>(direction) * parts.bytes;
    const kernels::RecurrentWeights<float> weights = {
        w_.Packed(context, geometry.size, direction, scratch + parts.w),
        r_.Packed(context, geometry.size, direction, scratch + parts.r)};
    kernels::Recurrent(isa_, ProblemOf<float>(options_, geometry, context, direction), weights,
                       {scratch, parts.w}, context.parallel());
  }

  RecurrentOptions options_;
  Isa isa_;
  PackedWeight w_;
  PackedWeight r_;
};

StatusOr<std::unique_ptr<Step>> BindFloat(const RecurrentOptions& options, BindContext& context) {
  if (context.isa() == Isa::kReference) {
    return std::make_unique<PlainRecurrentStep<float>>(options);
  }
  ASSIGN_OR_RETURN(PackedWeight w, PackedWeight::Bind(kFormOfW, options.kind(), context));
  ASSIGN_OR_RETURN(PackedWeight r, PackedWeight::Bind(kFormOfR, options.kind(), context));
  return std::make_unique<RecurrentStep>(options, context.isa(), std::move(w), std::move(r));
}

}  // namespace

StatusOr<std::unique_ptr<Step>> BindRecurrent(const RecurrentOptions& options,
                                              BindContext& context) {
  const DType dtype = context.input(Ports::kX).dtype;
  switch (dtype) {
    case DType::kFloat:
      return BindFloat(options, context);
    case DType::kDouble:
      return std::make_unique<PlainRecurrentStep<double>>(options);
    case DType::kFloat16:
      return std::make_unique<PlainRecurrentStep<Float16>>(options);
    case DType::kBfloat16:
      return std::make_unique<PlainRecurrentStep<Bfloat16>>(options);
    default:
      return Unimplemented("{} has no kernel for {}", context.node().op_type, DTypeName(dtype));
  }
}

}  // namespace tandem::ops
