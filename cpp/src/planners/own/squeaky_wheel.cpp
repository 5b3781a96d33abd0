// squeaky_wheel: buffers are placed in an order. A buffer that finds no place below the target squeaks: it comes
// forward in the order, and pushes others out of its way, until all have a place.
//
//     load ▲╌╌╌╌╌╌╌╌╌╌╌╌╌ ┌───┐       1. the largest loads first, the longest first: 0, 1, 2; now 3 would end
//          │┌───────┐     │ 3 │          above the load
//          ││ 2     │     └───┘       2. 3 comes forward, before 1: it pushes out what is in its way, which is
//          │├───┬───┴─────┐              placed again by the order: 0, 3, 1, 2
//          ││ 1 │   0     │           3. the next ones, 4, 5, …, go on from there
//          └┴───┴─────────┴─▶
//
// The target is the lower bound. A buffer that squeaks is *mended* at once, while few others are placed. Chance decides
// how far forward it comes, so there are many tries (Luby). If all fail, the buffer is left out, and mended after all
// others are placed. Six orders with two fits are tried, then the most promising again with twice the work. In between,
// the best plan is repaired at targets between its peak and the bound: buffers that end above the target are taken out,
// and mended.
//
// It ends when the peak is at the load, or at options.capacity, or when the work is done. Work is counted in buffers
// looked at. The first order is always placed.
//
// Complexity: O(n r log n) per order, O(a) per buffer moved for a alive in the same part of time. Guarantee: none.
// Source: Joslin and Clements 1999, Squeaky Wheel Optimization; the repair by rank is our own.
#include <algorithm>

#include "memplan/bounds.hpp"
#include "placing/best_so_far.hpp"
#include "planners/planners.hpp"
#include "search/wheel/squeaky_search.hpp"

namespace memplan {

Placement squeaky_wheel(const Problem& problem, const PlanOptions& options) {
  constexpr std::int64_t kStep = 200'000;  // work between two looks at what was found
  const std::int64_t placements =
      std::min(options.get(kSqueakyWheel[0]) * problem.count(), options.get(kSqueakyWheel[1]));
  const std::int64_t work = placements * SqueakySearch::kWorkPerStart;
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    SqueakySearch search(problem, options.seed, load(problem), deadline);
    const Bytes enough = options.enough(search.bound());
    const auto keep = [&](bool better) {
      if (!better) return;
      best.offsets.assign(search.best().begin(), search.best().end());
      options.tell({best.offsets, search.peak()});
    };
    keep(search.start(0, deadline));
    while (search.peak() > enough && search.work() < work && !deadline.passed())
      keep(search.step(std::min(kStep, work - search.work()), deadline, enough));
  });
}

}  // namespace memplan
