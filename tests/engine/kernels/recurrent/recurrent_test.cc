#include "engine/kernels/recurrent/recurrent.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/base/arena.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

using test::RandomFloats;

struct Case {
  Cell cell;
  RecurrentSize size;
  TimeOrder order = TimeOrder::kForward;
  std::vector<int32_t> lengths;
  bool items_first = false;

  int64_t gates() const { return GateCount(cell.kind); }
};

constexpr GateActivation kSigmoid = {.op = UnaryOp::kSigmoid};
constexpr GateActivation kTanh = {.op = UnaryOp::kTanh};

// All kinds of cell, with every variant of theirs.
std::vector<Cell> Cells() {
  std::vector<Cell> cells;
  for (const std::optional<float> clip : {std::optional<float>(), std::optional<float>(0.3f)}) {
    cells.push_back({CellKind::kRnn, {kTanh}, clip});
    cells.push_back({CellKind::kRnn, {GateActivation{.scale = 0.5f, .offset = 0.1f}}, clip});
    const GateActivation scaled = {.op = UnaryOp::kTanh, .inner_scale = 0.7f, .scale = 1.5f};
    for (const ResetPlace reset : {ResetPlace::kBeforeProduct, ResetPlace::kAfterProduct}) {
      cells.push_back({CellKind::kGru, {kSigmoid, scaled}, clip, reset});
    }
    for (const ForgetGate forget : {ForgetGate::kOwn, ForgetGate::kCoupled}) {
      cells.push_back({CellKind::kLstm, {kSigmoid, kTanh, scaled}, clip, {}, forget});
    }
  }
  return cells;
}

// Operands and results of a case; results of the last run.
class Data {
 public:
  explicit Data(const Case& test_case)
      : case_(test_case),
        x_(RandomFloats({size().steps, size().items, size().input}, 1)),
        w_(RandomFloats({rows(), size().input}, 2, -0.5f, 0.5f)),
        r_(RandomFloats({rows(), size().hidden}, 3, -0.5f, 0.5f)),
        bias_(RandomFloats({2 * rows()}, 4)),
        peepholes_(RandomFloats({3 * size().hidden}, 5)),
        h_(RandomFloats({size().items, size().hidden}, 6)),
        c_(RandomFloats({size().items, size().hidden}, 7)) {}

  const RecurrentSize& size() const { return case_.size; }
  int64_t rows() const { return case_.gates() * case_.size.hidden; }

  // Items [begin, end) of the case as a problem whose results are written to tensors.
  RecurrentProblem<float> Problem(int64_t begin, int64_t end) {
    RecurrentSize part = size();
    part.items = end - begin;
    y_ = *Tensor::Allocate(DType::kFloat, {part.steps, part.items, part.hidden});
    last_h_ = *Tensor::Allocate(DType::kFloat, {part.items, part.hidden});
    last_c_ = *Tensor::Allocate(DType::kFloat, {part.items, part.hidden});
    RecurrentProblem<float> problem{.cell = case_.cell, .size = part, .order = case_.order};
    if (!case_.lengths.empty()) problem.lengths = case_.lengths.data() + begin;
    problem.x =
        case_.items_first
            ? TimeRows<const float>{x_.data<float>(), size().input, size().steps * size().input}
            : TimeRows<const float>{x_.data<float>(), size().items * size().input, size().input};
    problem.x.data += begin * problem.x.item_stride;
    problem.bias = bias_.data<float>();
    if (case_.cell.kind == CellKind::kLstm) problem.peepholes = peepholes_.data<float>();
    problem.initial_h = {h_.data<float>() + begin * part.hidden, part.hidden};
    problem.initial_c = {c_.data<float>() + begin * part.hidden, part.hidden};
    problem.y = {y_.mutable_data<float>(), part.items * part.hidden, part.hidden};
    problem.last_h = {last_h_.mutable_data<float>(), part.hidden};
    problem.last_c = {last_c_.mutable_data<float>(), part.hidden};
    return problem;
  }

  std::vector<Tensor> RunReference() {
    const RecurrentProblem<float> problem = Problem(0, size().items);
    Buffer scratch = *Buffer::Allocate(ReferenceScratchBytes<float>(case_.cell.kind, size()));
    RecurrentReference<float>(problem, {w_.data<float>(), r_.data<float>()}, scratch.bytes());
    return {y_, last_h_, last_c_};
  }

  std::vector<Tensor> Run(Isa isa, int64_t begin, int64_t end, int threads) {
    const RecurrentProblem<float> problem = Problem(begin, end);
    const CellKind kind = case_.cell.kind;
    Buffer w = *Buffer::Allocate(static_cast<size_t>(PackedWFloats(isa, kind, size())) * 4);
    Buffer r = *Buffer::Allocate(static_cast<size_t>(PackedRFloats(isa, kind, size())) * 4);
    auto* packed_w = reinterpret_cast<float*>(w.data());
    auto* packed_r = reinterpret_cast<float*>(r.data());
    PackW(isa, kind, size(), w_.data<float>(), packed_w);
    PackR(isa, kind, size(), r_.data<float>(), packed_r);
    Buffer scratch = *Buffer::Allocate(RecurrentScratchBytes(kind, problem.size));
    Recurrent(isa, problem, {packed_w, packed_r}, scratch.bytes(), test::FineParallel(threads));
    return {y_, last_h_, last_c_};
  }

 private:
  const Case& case_;
  Tensor x_, w_, r_, bias_, peepholes_, h_, c_;
  Tensor y_, last_h_, last_c_;
};

// Those that pack.
std::vector<Isa> Isas() {
  std::vector<Isa> isas = test::IsaLevels();
  std::erase(isas, Isa::kReference);
  return isas;
}

// An RNN and a GRU have no cell state: what a kernel leaves there has no meaning.
size_t Results(const Case& test_case) { return test_case.cell.kind == CellKind::kLstm ? 3 : 2; }

void ExpectCloseToReference(const Case& test_case) {
  Data data(test_case);
  const std::vector<Tensor> expected = data.RunReference();
  const RecurrentSize& size = test_case.size;
  // Errors of a state go on into the next one.
  const int64_t k = (size.input + size.hidden) * std::max<int64_t>(1, size.steps);
  for (const Isa isa : Isas()) {
    const std::vector<Tensor> y = data.Run(isa, 0, size.items, 1);
    for (size_t i = 0; i < Results(test_case); ++i) {
      EXPECT_TRUE(test::Close(y[i], expected[i], test::Reduction(k)))
          << IsaName(isa) << " kind " << static_cast<int>(test_case.cell.kind) << " steps "
          << size.steps << " items " << size.items << " hidden " << size.hidden << " result " << i;
    }
  }
}

TEST(Recurrent, EveryCellIsTheReferenceOnEveryIsa) {
  for (const Cell& cell : Cells()) {
    for (const TimeOrder order : {TimeOrder::kForward, TimeOrder::kReverse}) {
      for (const bool items_first : {false, true}) {
        ExpectCloseToReference({cell, {5, 3, 7, 9}, order, {}, items_first});
        ExpectCloseToReference({cell, {4, 5, 2, 17}, order, {4, 0, 1, 3, 2}, items_first});
      }
    }
  }
}

TEST(Recurrent, SizesAroundVectorsAndPanels) {
  for (const Cell& cell : Cells()) {
    for (int64_t size = 1; size <= 70; ++size) {
      ExpectCloseToReference({cell, {2, 2, 3, size}});
      ExpectCloseToReference({cell, {2, 2, size, 5}});
      ExpectCloseToReference({cell, {2, size, 3, 5}});
    }
    ExpectCloseToReference({cell, {3, 1, 1, 5}});
    ExpectCloseToReference({cell, {1, 1, 0, 4}});
    ExpectCloseToReference({cell, {0, 3, 2, 4}});
    ExpectCloseToReference({cell, {2, 0, 2, 4}});
  }
}

// More steps than are projected at a time.
TEST(Recurrent, LongSequencesAreProjectedInStretches) {
  for (const bool items_first : {false, true}) {
    for (const TimeOrder order : {TimeOrder::kForward, TimeOrder::kReverse}) {
      Case long_case{Cells()[4], {23, 130, 3, 80}, order, {}, items_first};
      long_case.cell.clip = 0.1f;  // keeps a long way of errors short
      ASSERT_EQ(long_case.cell.kind, CellKind::kLstm);
      ExpectCloseToReference(long_case);
      long_case.size = {300, 2, 3, 130};
      ExpectCloseToReference(long_case);
    }
  }
}

TEST(Recurrent, AnItemHasTheSameBitsAloneAndInABatchAtAnyNumberOfThreads) {
  for (const Cell& cell : Cells()) {
    for (const bool items_first : {false, true}) {
      const Case batch{
          cell, {6, 7, 40, 33}, TimeOrder::kReverse, {6, 5, 0, 6, 1, 2, 6}, items_first};
      Data data(batch);
      for (const Isa isa : Isas()) {
        const std::vector<Tensor> whole = data.Run(isa, 0, 7, 1);
        for (const int threads : {2, 4}) {
          const std::vector<Tensor> again = data.Run(isa, 0, 7, threads);
          for (size_t i = 0; i < Results(batch); ++i) {
            ASSERT_TRUE(test::Close(again[i], whole[i], test::Exact())) << threads;
          }
        }
        for (int64_t item = 0; item < 7; ++item) {
          const std::vector<Tensor> alone = data.Run(isa, item, item + 1, 1);
          for (size_t i = 1; i < Results(batch); ++i) {
            ASSERT_TRUE(test::Close(alone[i], whole[i].Rows(item, item + 1), test::Exact()))
                << IsaName(isa) << " item " << item;
          }
          for (int64_t step = 0; step < 6; ++step) {
            const Tensor row = whole[0].Rows(step, step + 1).Reshaped({7, 33});
            ASSERT_TRUE(test::Close(alone[0].Rows(step, step + 1).Reshaped({1, 33}),
                                    row.Rows(item, item + 1), test::Exact()));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::kernels
