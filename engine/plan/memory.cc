#include "engine/plan/memory.h"

#include <algorithm>
#include <numeric>

#include "engine/base/arena.h"

namespace tandem::plan {

Placement PlaceBuffers(const std::vector<Lifetime>& lifetimes) {
  Placement placement;
  placement.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;  // by rising offset
  for (const size_t i : order) {
    const Lifetime& wanted = lifetimes[i];
    if (wanted.bytes == 0) continue;
    const size_t bytes = AlignUp(wanted.bytes);
    size_t offset = 0;
    for (const size_t j : placed) {
      const Lifetime& other = lifetimes[j];
      if (other.end < wanted.begin || wanted.end < other.begin) continue;
      if (offset + bytes <= placement.offsets[j]) break;
      offset = std::max(offset, placement.offsets[j] + AlignUp(other.bytes));
    }
    placement.offsets[i] = offset;
    placement.bytes = std::max(placement.bytes, offset + bytes);
    const auto place = std::ranges::upper_bound(placed, offset, {},
                                                [&](size_t j) { return placement.offsets[j]; });
    placed.insert(place, i);
  }
  return placement;
}

}  // namespace tandem::plan
