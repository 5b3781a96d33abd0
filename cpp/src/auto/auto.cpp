// auto: an anytime portfolio. It holds the best plan so far and stops as soon as its peak equals a bound, which proves
// it, is at most the capacity given, or when the effort is spent or the time is up.
//
//     first_fit ─▶ rounds of   valley          runs at the bound: an optimum, or the proof that there is none there
//                              squeaky_wheel   an order, repaired
//                              valley          runs between the bound and the best peak
//
// In a round each member works for an equal slice of work, from the best plan at the beginning of the round, and the
// best of what they find is kept, ties to the first of them. Slices are counted in work, not in time, so what comes out
// is the same for any number of threads, unless a time limit cuts it short. Slices grow, so that what is easy ends
// early.
//
// Groups of buffers that conflict with all of the others are planned by a portfolio each (auto/bands.hpp).
//
// With conflicts beyond lifetimes and with shapes, it begins with the best of some greedy planners, and a search on
// pairs comes first, which is exact where buffers are few; then one by ejection, and one by orders where there are no
// shapes. Conflicts beyond lifetimes are not for the valley search, and where buffers have shapes and are not few it is
// given plain rectangles, and what it proves of those is not kept.
//
// Complexity: O(n log n) and a dive, then as much as the effort allows. Guarantee: at or below the peak of all it
// begins with.
#include "auto/auto.hpp"

#include "auto/around_pins.hpp"
#include "auto/band_rounds.hpp"
#include "auto/portfolio_search.hpp"
#include "placing/best_so_far.hpp"

namespace memplan {

Placement portfolio(const Problem& problem, const PlanOptions& options) {
  if (problem.has_pins() || !problem.reserved().empty()) return around_pins(problem, options, portfolio, kPortfolio[0]);
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    PortfolioSearch(problem, options, best, rounds_of_band).run(deadline);
  });
}

}  // namespace memplan
