// Attention (ai.onnx, opset 23; input nonpad_kv_seqlen and masks shorter than the keys since 24):
// softmax(scale Q K^T + mask) V by heads. Q, K and V are [batch, heads, length, head size] or
// [batch, length, heads * head size]; query heads may share heads of K and V. Keys and values of a
// cache (past_key, past_value) stand before those given.
#include "engine/kernels/attention/attention.h"

#include <cmath>

#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::AttentionShape;
using kernels::Heads;

enum Port : int { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };
enum OutputPort : int { kY, kPresentKey, kPresentValue, kScores };

struct AttentionOptions {
  bool causal = false;
  int64_t q_heads = 0;  // 0: the inputs say
  int64_t kv_heads = 0;
  std::optional<float> scale;  // else 1 / sqrt(head size)
  float softcap = 0;
  kernels::ScoreStage stage = kernels::ScoreStage::kScaled;
};

// Extents of one of Q, K and V.
struct HeadExtents {
  graph::Dim batch, heads, length, size;
};

HeadExtents ExtentsOf(const graph::DimVector& dims, int64_t heads) {
  if (dims.size() == 4) return {dims[0], dims[1], dims[2], dims[3]};
  return {dims[0], heads, dims[1], ExactDiv(dims[2], heads)};
}

struct HeadNumbers {
  int64_t batch, heads, length, size;
};

HeadNumbers NumbersOf(const Shape& shape, int64_t heads) {
  if (shape.rank() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  return {shape[0], heads, shape[1], shape[2] / heads};
}

// Where the heads of a tensor [batch, heads, length, size] or [batch, length, heads * size] lie.
template <typename T>
Heads<T> HeadsOf(T* data, const Shape& shape, int64_t heads) {
  const HeadNumbers n = NumbersOf(shape, heads);
  const int64_t item = n.heads * n.length * n.size;
  if (shape.rank() == 4) return {data, item, n.length * n.size, n.size};
  return {data, item, n.size, n.heads * n.size};
}

// Rows [first, first + from.length) of every head of `to`, of a tensor whose extents are `from`.
void CopyRows(const Heads<const float>& source, const HeadNumbers& from, const Heads<float>& to,
              int64_t first) {
  for (int64_t item = 0; item < from.batch; ++item) {
    for (int64_t head = 0; head < from.heads; ++head) {
      for (int64_t row = 0; row < from.length; ++row) {
        const float* begin = source.At(item, head) + row * source.row_step;
        std::copy_n(begin, from.size, to.At(item, head) + (first + row) * to.row_step);
      }
    }
  }
}

class AttentionStep final : public Step {
 public:
  AttentionStep(const AttentionOptions& options, const BindContext& context)
      : options_(options),
        arithmetic_(context.arithmetic()),
        has_past_(context.has_input(kPastKey)),
        copies_key_(has_past_ && !context.has_output(kPresentKey)),
        copies_value_(has_past_ && !context.has_output(kPresentValue)) {}

  std::string kernel() const override {
    return fmt::format("attention.f32 {}", IsaName(arithmetic_.isa));
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const AttentionShape shape = ShapeOf(shapes.inputs);
    const int64_t floats = kernels::AttentionScratchFloats(arithmetic_, shape, shapes.threads) +
                           KeyFloats(shape) + ValueFloats(shape);
    return static_cast<size_t>(floats) * sizeof(float);
  }

  Status Run(StepContext& context) const override {
    std::vector<Shape> inputs;
    for (int port = 0; port <= kLengths; ++port) inputs.push_back(context.input(port).shape());
    kernels::AttentionProblem problem;
    problem.shape = ShapeOf(inputs);
    problem.causal = options_.causal;
    problem.softcap = options_.softcap;
    problem.stage = options_.stage;
    problem.scale =
        options_.scale.value_or(1 / std::sqrt(static_cast<float>(problem.shape.head_size)));
    problem.q = HeadsOf(context.input(kQ).data<float>(), inputs[kQ], options_.q_heads);
    problem.y = HeadsOf(context.output(kY).mutable_data<float>(), context.output(kY).shape(),
                        problem.shape.q_heads);
    auto* scratch = reinterpret_cast<float*>(context.scratch().data());
    problem.k = WithPast(context, kK, scratch);
    scratch += KeyFloats(problem.shape);
    problem.v = WithPast(context, kV, scratch);
    scratch += ValueFloats(problem.shape);
    if (context.has_input(kPastKey)) problem.causal_offset = inputs[kPastKey][2];
    if (context.has_input(kMask)) SetMask(context.input(kMask), problem);
    if (context.has_input(kLengths)) problem.lengths = context.input(kLengths).data<int64_t>();
    if (context.output(kScores).dtype() != DType::kUndefined) {
      problem.scores = context.output(kScores).mutable_data<float>();
    }
    kernels::Attention(arithmetic_, problem, scratch, context.parallel());
    return absl::OkStatus();
  }

 private:
  AttentionShape ShapeOf(std::span<const Shape> inputs) const {
    const HeadNumbers q = NumbersOf(inputs[kQ], options_.q_heads);
    const HeadNumbers k = NumbersOf(inputs[kK], options_.kv_heads);
    const HeadNumbers v = NumbersOf(inputs[kV], options_.kv_heads);
    AttentionShape shape{q.batch, q.heads, k.heads, q.length, k.length, q.size, v.size};
    if (has_past_) shape.keys += inputs[kPastKey][2];
    return shape;
  }

  // Floats of the past and the new keys and values, where there is a past and no output for them.
  int64_t KeyFloats(const AttentionShape& shape) const {
    return copies_key_ ? Rounded(shape.batch * shape.kv_heads * shape.keys * shape.head_size) : 0;
  }
  int64_t ValueFloats(const AttentionShape& shape) const {
    return copies_value_ ? Rounded(shape.batch * shape.kv_heads * shape.keys * shape.v_head_size)
                         : 0;
  }
  static int64_t Rounded(int64_t floats) {
    constexpr int64_t kLine = static_cast<int64_t>(kBufferAlignment / sizeof(float));
    return (floats + kLine - 1) / kLine * kLine;
  }

  // Keys or values with those of the past before them: in the output for them, in `scratch` where
  // there is none, or as they came where there is no past.
  Heads<const float> WithPast(StepContext& context, int port, float* scratch) const {
    const TensorView& now = context.input(port);
    const TensorView& past = context.input(port == kK ? kPastKey : kPastValue);
    const MutableTensorView& kept = context.output(port == kK ? kPresentKey : kPresentValue);
    const Heads<const float> heads = HeadsOf(now.data<float>(), now.shape(), options_.kv_heads);
    const bool has_past = past.dtype() != DType::kUndefined;
    const bool keeps = kept.dtype() != DType::kUndefined;
    if (!has_past && !keeps) return heads;
    const HeadNumbers n = NumbersOf(now.shape(), options_.kv_heads);
    const int64_t before = has_past ? past.shape()[2] : 0;
    const Shape all{n.batch, n.heads, before + n.length, n.size};
    const Heads<float> to = HeadsOf(keeps ? kept.mutable_data<float>() : scratch, all, n.heads);
    if (has_past) {
      CopyRows(HeadsOf(past.data<float>(), past.shape(), n.heads), NumbersOf(past.shape(), n.heads),
               to, 0);
    }
    CopyRows(heads, n, to, before);
    return {to.data, to.item_step, to.head_step, to.row_step};
  }

  static void SetMask(const TensorView& mask, kernels::AttentionProblem& problem) {
    const Shape& shape = mask.shape();
    if (mask.dtype() == DType::kBool) {
      problem.mask.kept = mask.data<bool>();
    } else {
      problem.mask.added = mask.data<float>();
    }
    const auto strides = shape.Strides();
    const int first = 4 - shape.rank();
    for (int axis = first; axis < 4; ++axis) {
      const bool broadcasts = axis < 3 && shape[axis - first] == 1;
      problem.mask.steps[static_cast<size_t>(axis)] =
          broadcasts ? 0 : strides[static_cast<size_t>(axis - first)];
    }
    problem.mask.keys = shape[shape.rank() - 1];
  }

  const AttentionOptions options_;
  const Arithmetic arithmetic_;
  const bool has_past_;
  const bool copies_key_;
  const bool copies_value_;
};

class Attention final : public Operator {
 public:
  explicit Attention(const AttentionOptions& options) : options_(options) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    AttentionOptions options;
    options.causal = reader.Flag("is_causal", false);
    options.q_heads = reader.Int("q_num_heads", 0);
    options.kv_heads = reader.Int("kv_num_heads", 0);
    if (reader.has("scale")) options.scale = reader.Float("scale", 1);
    options.softcap = reader.Float("softcap", 0);
    reader.Ignore("softmax_precision");  // float32, whatever is asked for
    const int64_t mode = reader.Int("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) {
      reader.Fail(InvalidArgument(
          "attribute 'qk_matmul_output_mode' is {} where 0 to 3 are expected", mode));
    } else {
      options.stage = static_cast<kernels::ScoreStage>(mode);
    }
    for (const auto& [name, heads] :
         {std::pair{"q_num_heads", options.q_heads}, std::pair{"kv_num_heads", options.kv_heads}}) {
      if (heads < 0) {
        reader.Fail(
            InvalidArgument("attribute '{}' is {} where at least 1 is expected", name, heads));
      }
    }
    return std::make_shared<const Attention>(options);
  }

  Status Infer(InferContext& context) const override {
    const DType dtype = context.input(kQ).dtype;
    for (int port = 0; port < 4; ++port) context.SetOutput(port, dtype, std::nullopt);
    RETURN_IF_ERROR(CheckTypes(context));
    const graph::DimVector* q_dims = context.dims(kQ);
    const graph::DimVector* k_dims = context.dims(kK);
    const graph::DimVector* v_dims = context.dims(kV);
    if (q_dims == nullptr || k_dims == nullptr || v_dims == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(CheckRanks(*q_dims, *k_dims, *v_dims));
    const HeadExtents q = ExtentsOf(*q_dims, options_.q_heads);
    const HeadExtents k = ExtentsOf(*k_dims, options_.kv_heads);
    const HeadExtents v = ExtentsOf(*v_dims, options_.kv_heads);
    RETURN_IF_ERROR(CheckExtents(q, k, v));
    graph::Dim keys = k.length;
    if (context.has_input(kPastKey)) {
      for (const int port : {kPastKey, kPastValue}) {
        const graph::DimVector* dims = context.dims(port);
        if (dims != nullptr && dims->size() != 4) {
          return InvalidArgument("input {} has shape {} where 4 axes are expected", port,
                                 graph::ToString(*dims));
        }
      }
      const graph::DimVector* past = context.dims(kPastKey);
      keys = past == nullptr ? graph::Dim() : keys + (*past)[2];
    }
    RETURN_IF_ERROR(CheckMask(context, {q.batch, q.heads, q.length, keys}));
    graph::DimVector y = {q.batch, q.heads, q.length, v.size};
    if (q_dims->size() == 3) y = {q.batch, q.length, q.heads * v.size};
    context.SetOutput(kY, dtype, y);
    context.SetOutput(kPresentKey, dtype, graph::DimVector{k.batch, k.heads, keys, k.size});
    context.SetOutput(kPresentValue, dtype, graph::DimVector{v.batch, v.heads, keys, v.size});
    context.SetOutput(kScores, dtype, graph::DimVector{q.batch, q.heads, q.length, keys});
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    if (context.input(kQ).dtype != DType::kFloat) {
      return Unimplemented("Attention of {} has no kernel; float has one",
                           DTypeName(context.input(kQ).dtype));
    }
    return std::make_unique<AttentionStep>(options_, context);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const HeadNumbers q = NumbersOf(shapes.inputs[kQ], std::max<int64_t>(options_.q_heads, 1));
    const HeadNumbers v = NumbersOf(shapes.inputs[kV], std::max<int64_t>(options_.kv_heads, 1));
    Cost cost = ElementwiseCost(shapes, dtype, 0);
    cost.multiply_adds = static_cast<double>(q.batch * q.heads * q.length * v.length) *
                         static_cast<double>(q.size + v.size);
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (size_t port = 0; port < query.axes.size(); ++port) {
      if (query.inputs[port] == nullptr) continue;
      const bool is_mask = port == kMask;
      if (is_mask && !query.axes[port]) continue;
      if (query.axes[port] != 0 || (is_mask && query.inputs[port]->rank() != 4)) {
        return BatchAnswer::Decline(fmt::format("input {} does not carry the batch first", port));
      }
    }
    // A mask that all items share must have no extent for them.
    if (query.axes.size() > kMask && query.inputs[kMask] != nullptr && !query.axes[kMask]) {
      const ValueFacts& mask = *query.inputs[kMask];
      if (!mask.dims || (mask.rank() == 4 && !(*mask.dims)[0].SameAs(1))) {
        return BatchAnswer::Decline("the mask differs between items");
      }
    }
    return BatchAnswer::All(query, 0);
  }

 private:
  static Status CheckTypes(const InferContext& context) {
    RETURN_IF_ERROR(CheckDType(context, kQ, [](DType dtype) { return IsFloating(dtype); }));
    for (const int port : {kK, kV, kPastKey, kPastValue}) {
      if (port < context.inputs() && context.has_input(port)) {
        RETURN_IF_ERROR(CheckSameDType(context, port, kQ));
      }
    }
    const auto has = [&](int port) { return port < context.inputs() && context.has_input(port); };
    if (has(kMask) && context.input(kMask).dtype != DType::kBool) {
      RETURN_IF_ERROR(CheckSameDType(context, kMask, kQ));
    }
    if (has(kPastKey) != has(kPastValue)) {
      return InvalidArgument("past_key and past_value are expected together");
    }
    if (!has(kLengths)) return absl::OkStatus();
    if (context.input(kLengths).dtype != DType::kInt64) {
      return InvalidArgument("nonpad_kv_seqlen is {} where int64 is expected",
                             DTypeName(context.input(kLengths).dtype));
    }
    if (has(kPastKey)) {
      return InvalidArgument("nonpad_kv_seqlen and past_key are not expected together");
    }
    return absl::OkStatus();
  }

  Status CheckRanks(const graph::DimVector& q, const graph::DimVector& k,
                    const graph::DimVector& v) const {
    const size_t rank = q.size();
    if ((rank != 3 && rank != 4) || k.size() != rank || v.size() != rank) {
      return InvalidArgument("Q {}, K {} and V {} are expected to have 3 axes each, or 4 each",
                             graph::ToString(q), graph::ToString(k), graph::ToString(v));
    }
    if (rank == 3 && (options_.q_heads < 1 || options_.kv_heads < 1)) {
      return InvalidArgument(
          "inputs of 3 axes need the attributes 'q_num_heads' and 'kv_num_heads'");
    }
    const auto splits = [](const graph::Dim& dim, int64_t heads) {
      return !dim.is_number() || dim.number() % heads == 0;
    };
    if (rank == 3 && !(splits(q[2], options_.q_heads) && splits(k[2], options_.kv_heads) &&
                       splits(v[2], options_.kv_heads))) {
      return InvalidArgument("Q {}, K {} and V {} are not {} and {} heads of equal size",
                             graph::ToString(q), graph::ToString(k), graph::ToString(v),
                             options_.q_heads, options_.kv_heads);
    }
    return absl::OkStatus();
  }

  static Status CheckExtents(const HeadExtents& q, const HeadExtents& k, const HeadExtents& v) {
    if (!MayEqual(q.batch, k.batch) || !MayEqual(q.batch, v.batch)) {
      return InvalidArgument("Q, K and V have {}, {} and {} items", ToString(q.batch),
                             ToString(k.batch), ToString(v.batch));
    }
    if (!MayEqual(q.size, k.size)) {
      return InvalidArgument("heads of Q have {} elements, those of K {}", ToString(q.size),
                             ToString(k.size));
    }
    if (!MayEqual(k.length, v.length) || !MayEqual(k.heads, v.heads)) {
      return InvalidArgument("K has {} heads of {} keys, V {} heads of {} values",
                             ToString(k.heads), ToString(k.length), ToString(v.heads),
                             ToString(v.length));
    }
    if (q.heads.is_number() && k.heads.is_number() &&
        (k.heads.number() == 0 || q.heads.number() % k.heads.number() != 0)) {
      return InvalidArgument("{} heads of Q do not share {} heads of K evenly", q.heads.number(),
                             k.heads.number());
    }
    return absl::OkStatus();
  }

  static Status CheckMask(const InferContext& context, const graph::DimVector& scores) {
    const graph::DimVector* mask = kMask < context.inputs() ? context.dims(kMask) : nullptr;
    if (mask == nullptr) return absl::OkStatus();
    bool fits = mask->size() >= 2 && mask->size() <= 4;
    for (size_t i = 1; fits && i <= mask->size(); ++i) {
      const graph::Dim& own = (*mask)[mask->size() - i];
      const graph::Dim& wanted = scores[scores.size() - i];
      if (i == 1) {
        fits = !own.is_number() || !wanted.is_number() || own.number() <= wanted.number();
      } else {
        fits = own.SameAs(1) || MayEqual(own, wanted);
      }
    }
    if (fits) return absl::OkStatus();
    return InvalidArgument("attn_mask has shape {}, which does not broadcast to the scores {}",
                           graph::ToString(*mask), graph::ToString(scores));
  }

  const AttentionOptions options_;
};

}  // namespace

void RegisterAttention(OpRegistry& registry) {
  registry.Add({.op_type = "Attention",
                .versions = {23, 24},
                .min_inputs = 3,
                .max_inputs = 7,
                .max_outputs = 4,
                .parse = Attention::Parse,
                .doc = "Softmax of scaled products of queries and keys, times values, by heads."});
}

}  // namespace tandem::ops
