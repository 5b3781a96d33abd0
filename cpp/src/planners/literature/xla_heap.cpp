// xla_heap: places buffers in a global order, each into the smallest free chunk that holds it, at the chunk's low end.
// The endless chunk above everything is taken only if no other fits.
//
//     order=spatial           the largest first, then the longest life
//     order=temporal          the longest life first, then the largest
//     order=spatial_temporal  the largest area (bytes x steps) first
//     order=best              spatial and temporal, the lower peak; spatial if they are equal. XLA's default
//
// A chunk begins at the first aligned byte above the bytes in use, and its size counts from there. fit=lowest takes the
// lowest chunk that fits instead, an option of later XLA. Ties: index.
//
// In greedy_by_size, ties of the order differ, and the size of a chunk counts from its first free byte.
//
// Complexity: O(n r log n), twice for order=best. Guarantee: none.
// Source: OpenXLA, GlobalDecreasingSizeBestFitHeap and ChooseBestHeapAlgorithm (xla/service/heap_simulator). Colocated
// buffers are one buffer here.
#include <algorithm>

#include "memplan/plan.hpp"
#include "placing/in_order.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

// a * b in full, as (high, low).
std::pair<std::uint64_t, std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kLow = 0xffffffff;
  const std::uint64_t low = (a & kLow) * (b & kLow);
  const std::uint64_t middle = (a >> 32) * (b & kLow) + (low >> 32);
  const std::uint64_t other = (a & kLow) * (b >> 32) + (middle & kLow);
  return {(a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32), (other << 32) | (low & kLow)};
}

enum BufferOrder : std::int64_t { kBest, kSpatial, kTemporal, kSpatialTemporal };  // the parameter's words

bool comes_before(const Problem& problem, BufferOrder order, Index a, Index b) {
  if (order == kSpatialTemporal) {
    const auto area = [&](Index i) {
      return product(static_cast<std::uint64_t>(problem.size(i)), length_of_life(problem, i));
    };
    return area(a) != area(b) ? area(a) > area(b) : a < b;
  }
  const bool same_size = problem.size(a) == problem.size(b);
  if (order == kSpatial && !same_size) return problem.size(a) > problem.size(b);
  if (length_of_life(problem, a) != length_of_life(problem, b))
    return length_of_life(problem, a) > length_of_life(problem, b);
  return same_size ? a < b : problem.size(a) > problem.size(b);
}

Bytes smallest_chunk(std::span<const OffsetRange> room, Bytes alignment) {
  Bytes best = align_up(room.back().lowest, alignment);
  Bytes best_width = kMaxBytes;
  for (const OffsetRange& run : room.first(room.size() - 1)) {
    const Bytes offset = align_up(run.lowest, alignment);
    if (offset > run.highest || run.highest - offset >= best_width) continue;
    best = offset;
    best_width = run.highest - offset;
  }
  return best;
}

Placement place(const Problem& problem, BufferOrder order, bool lowest, const Deadline& deadline) {
  std::vector<Index> buffers = with_bytes(problem);
  std::sort(buffers.begin(), buffers.end(),
            deadline.ticking([&](Index a, Index b) { return comes_before(problem, order, a, b); }));
  return place_in_order(problem, buffers, deadline, lowest ? lowest_fit : smallest_chunk);
}

}  // namespace

Placement xla_heap(const Problem& problem, const PlanOptions& options) {
  const auto order = static_cast<BufferOrder>(options.get(kXlaHeap[0]));
  const bool lowest = options.get(kXlaHeap[1]) != 0;
  const Deadline deadline(options);
  if (order != kBest) return place(problem, order, lowest, deadline);
  Placement spatial = place(problem, kSpatial, lowest, deadline);
  Placement temporal = place(problem, kTemporal, lowest, deadline);
  return peak_of(problem, temporal.offsets) < peak_of(problem, spatial.offsets) ? temporal : spatial;
}

}  // namespace memplan
