#include "placing/best_so_far.hpp"

#include <algorithm>
#include <numeric>

#include "memplan/bounds.hpp"
#include "placing/in_order.hpp"
#include "placing/simulation.hpp"

namespace memplan {

namespace {

// A plan in which most buffers are on top peaks far above. So where no two conflict beyond their lifetimes, so many are
// placed whatever the deadline says. More of them, and those among pins, get so much work each first.
constexpr Index kAnyway = 200'000;
constexpr std::size_t kWorkEach = 200;

void place_by_birth(const Problem& problem, const Deadline& deadline, std::vector<Bytes>& offsets) {
  if (problem.conflicts() != nullptr) return place_in_order(problem, by_birth(problem), deadline, offsets, lowest_fit);
  const Deadline later = deadline.after(at(problem.count()) * kWorkEach);
  if (problem.has_pins() || !problem.reserved().empty())
    return place_in_order(problem, by_birth(problem), later, offsets, lowest_fit);
  simulate(problem, problem.count() <= kAnyway ? Deadline() : later, offsets,
           [](const FreeBlocks& blocks, Bytes size, Bytes alignment) { return blocks.lowest(size, alignment); });
}

// What is pinned has an offset; the others have none yet.
std::vector<Bytes> pinned_offsets(const Problem& problem) {
  std::vector<Bytes> offsets(problem.size().size(), kNowhere);
  for (Index i = 0; problem.has_pins() && i < problem.count(); ++i) offsets[at(i)] = problem.pin(i);
  return offsets;
}

void put_the_rest_on_top(const Problem& problem, std::vector<Bytes>& offsets) {
  Bytes top = end_of_fixed(problem);
  for (Index i = 0; i < problem.count(); ++i)
    if (offsets[at(i)] != kNowhere) top = std::max(top, offsets[at(i)] + problem.size(i));
  for (Index i = 0; i < problem.count(); ++i) {
    if (offsets[at(i)] != kNowhere) continue;
    offsets[at(i)] = problem.size(i) > 0 ? align_up(top, problem.alignment(i)) : 0;
    if (problem.size(i) > 0) top = offsets[at(i)] + problem.size(i);
  }
}

// In the order of their earlier offsets, and those that had none by birth.
std::vector<Index> as_before(const Problem& problem, std::span<const Bytes> warm) {
  std::vector<Index> order = by_birth(problem);
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    const auto key = [&](Index i) { return warm[at(i)] == kNowhere ? kMaxBytes : warm[at(i)]; };
    return key(a) < key(b);
  });
  return order;
}

// Each where it was, if nothing is in the way; the others after that, as low as they can.
void stay(const Problem& problem, std::span<const Bytes> warm, const Deadline& deadline, std::vector<Bytes>& offsets) {
  Placed placed(problem, deadline);
  const auto put = [&](Index i, Bytes offset) {
    placed.add(i, offset);
    offsets[at(i)] = offset;
  };
  std::vector<Index> others;
  for (const Index i : as_before(problem, warm)) {
    if (problem.pin(i) != kNowhere) continue;
    const Bytes was = warm[at(i)];
    const auto fits = [&](const OffsetRange& range) { return range.lowest <= was && was <= range.highest; };
    const bool aligned = was != kNowhere && was % problem.alignment(i) == 0;
    if (aligned && std::ranges::any_of(placed.room(i), fits)) {
      put(i, was);
    } else {
      others.push_back(i);
    }
  }
  for (const Index i : others) put(i, lowest_fit(placed.room(i), problem.alignment(i)));
}

}  // namespace

Placement warm_plan(const Problem& problem, const PlanOptions& options, const Deadline& deadline) {
  Placement stays, packed;
  stays.winner = packed.winner = "start";
  packed.offsets = stays.offsets = pinned_offsets(problem);
  in_time([&] {
    stay(problem, options.warm, deadline, stays.offsets);
    place_in_order(problem, as_before(problem, options.warm), deadline, packed.offsets, lowest_fit);
  });
  for (Placement* placement : {&stays, &packed}) put_the_rest_on_top(problem, placement->offsets);
  return peak_of(problem, packed.offsets) < peak_of(problem, stays.offsets) ? packed : stays;
}

Placement first_plan(const Problem& problem, const Deadline& deadline) {
  Placement placement;
  placement.offsets = pinned_offsets(problem);
  in_time([&] { place_by_birth(problem, deadline, placement.offsets); });
  put_the_rest_on_top(problem, placement.offsets);
  return placement;
}

}  // namespace memplan
