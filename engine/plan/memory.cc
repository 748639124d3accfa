#include "engine/plan/memory.h"

#include <algorithm>
#include <numeric>

#include "engine/base/arena.h"

namespace tandem::plan {
namespace {

// By time: an offset below which every byte is taken then. A tree of ranges of times, so that
// buffers that live long together cost as much as others.
class Taken {
 public:
  explicit Taken(int times) : nodes_(4 * static_cast<size_t>(times)), times_(times) {}

  // The highest in the lifetime: nothing fits below it.
  size_t Highest(const Lifetime& lifetime) { return Highest(lifetime, 1, 0, times_ - 1); }

  // [begin, end) is taken, too, in the lifetime.
  void Take(const Lifetime& lifetime, size_t begin, size_t end) {
    Take({lifetime, begin, end}, 1, 0, times_ - 1);
  }

 private:
  struct Node {
    size_t lowest = 0;
    size_t highest = 0;  // of the times in its range; what its parts say counts if this differs
  };
  struct Piece {
    const Lifetime& lifetime;
    size_t begin;
    size_t end;
  };

  static bool Apart(const Lifetime& lifetime, int first, int last) {
    return lifetime.end < first || last < lifetime.begin;
  }

  size_t Highest(const Lifetime& lifetime, size_t node, int first, int last) {
    if (Apart(lifetime, first, last)) return 0;
    const Node& here = nodes_[node];
    const bool inside = lifetime.begin <= first && last <= lifetime.end;
    if (inside || here.lowest == here.highest) return here.highest;
    const int middle = first + (last - first) / 2;
    return std::max(Highest(lifetime, 2 * node, first, middle),
                    Highest(lifetime, 2 * node + 1, middle + 1, last));
  }

  void Take(const Piece& piece, size_t node, int first, int last) {
    Node& here = nodes_[node];
    if (Apart(piece.lifetime, first, last) || here.highest < piece.begin) return;
    const bool inside = piece.lifetime.begin <= first && last <= piece.lifetime.end;
    if (here.lowest == here.highest) {
      if (here.highest != piece.begin) return;
      if (inside) {
        here = {piece.end, piece.end};
        return;
      }
      nodes_[2 * node] = nodes_[2 * node + 1] = here;
    }
    const int middle = first + (last - first) / 2;
    Take(piece, 2 * node, first, middle);
    Take(piece, 2 * node + 1, middle + 1, last);
    here.lowest = std::min(nodes_[2 * node].lowest, nodes_[2 * node + 1].lowest);
    here.highest = std::max(nodes_[2 * node].highest, nodes_[2 * node + 1].highest);
  }

  std::vector<Node> nodes_;
  const int times_;
};

}  // namespace

Placement PlaceBuffers(const std::vector<Lifetime>& lifetimes) {
  Placement placement;
  placement.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  if (order.empty()) return placement;
  const size_t largest = AlignUp(lifetimes[order.front()].bytes);
  Taken taken(1 + std::ranges::max_element(lifetimes, {}, &Lifetime::end)->end);
  std::vector<size_t> placed;  // by rising offset
  const auto offset_of = [&](size_t j) { return placement.offsets[j]; };
  for (const size_t i : order) {
    const Lifetime& wanted = lifetimes[i];
    if (wanted.bytes == 0) continue;
    const size_t bytes = AlignUp(wanted.bytes);
    size_t offset = taken.Highest(wanted);
    // What starts below ends below.
    const size_t reach = offset - std::min(offset, largest);
    for (auto next = std::ranges::lower_bound(placed, reach, {}, offset_of); next != placed.end();
         ++next) {
      const size_t j = *next;
      const Lifetime& other = lifetimes[j];
      if (other.end < wanted.begin || wanted.end < other.begin) continue;
      if (offset + bytes <= placement.offsets[j]) break;
      offset = std::max(offset, placement.offsets[j] + AlignUp(other.bytes));
    }
    placement.offsets[i] = offset;
    placement.bytes = std::max(placement.bytes, offset + bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, offset_of), i);
    taken.Take(wanted, offset, offset + bytes);
  }
  return placement;
}

}  // namespace tandem::plan
