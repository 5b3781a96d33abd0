#include "memplan/near.hpp"

#include <algorithm>

#include "placing/placed.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

Bytes fit_above(std::span<const OffsetRange> room, Bytes alignment, Bytes wish) {
  for (const OffsetRange& run : room) {
    const Bytes offset = align_up(std::max(run.lowest, wish), alignment);
    if (offset <= run.highest) return offset;
  }
  return align_up(std::max(room.back().lowest, wish), alignment);
}

}  // namespace

std::vector<Bytes> placed_near(const Problem& problem, std::span<const Bytes> wishes, const Limits& limits) {
  std::vector<Index> order = with_bytes(problem);
  const auto last = [&](Index i) { return wishes[at(i)] == kNowhere; };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    return std::pair(last(a), wishes[at(a)]) < std::pair(last(b), wishes[at(b)]);
  });
  const Deadline deadline(limits);
  Placed placed(problem, deadline);
  std::vector<Bytes> offsets(problem.size().size(), 0);
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.pin(i) != kNowhere) offsets[at(i)] = problem.pin(i);
  for (const Index i : order) {
    if (problem.pin(i) != kNowhere) continue;
    offsets[at(i)] = fit_above(placed.room(i), problem.alignment(i), std::max<Bytes>(wishes[at(i)], 0));
    placed.add(i, offsets[at(i)]);
  }
  return offsets;
}

}  // namespace memplan
