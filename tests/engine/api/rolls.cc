#include "tests/engine/api/rolls.h"

#include <limits>

namespace tandem::test {
namespace {

Tensor One(int64_t value) { return Tensor::Of<int64_t>({1}, {value}); }

}  // namespace

void AddRoll(Roll roll, const std::string& from, const std::string& to, const Turn& turn,
             ModelBuilder& builder) {
  if (roll == Roll::kGather) {
    Tensor places = *Tensor::Allocate(DType::kInt64, {turn.extent});
    for (int64_t i = 0; i < turn.extent; ++i) {
      places.mutable_data<int64_t>()[i] = (i + turn.shift) % turn.extent;
    }
    builder.Initializer(to + "_places", places)
        .Node("Gather", {from, to + "_places"}, {to}, {{"axis", turn.axis}});
    return;
  }
  builder.Initializer(to + "_shift", One(turn.shift))
      .Initializer(to + "_zero", One(0))
      .Initializer(to + "_end", One(std::numeric_limits<int64_t>::max()))
      .Initializer(to + "_axis", One(turn.axis))
      .Node("Slice", {from, to + "_shift", to + "_end", to + "_axis"}, {to + "_a"})
      .Node("Slice", {from, to + "_zero", to + "_shift", to + "_axis"}, {to + "_b"})
      .Node("Concat", {to + "_a", to + "_b"}, {to}, {{"axis", turn.axis}});
}

}  // namespace tandem::test
