// auto: an anytime portfolio. It holds the best plan so far. It stops as soon as the peak equals a bound, so that the
// plan is proven optimal, or is at most the given capacity. It also stops when the effort or the time is spent.
//
//     first_fit ─▶ rounds of   valley          runs at the bound: an optimum, or the proof that there is none there
//                              squeaky_wheel   an order, repaired
//                              valley          runs between the bound and the best peak
//
// In a round, each member gets a slice of work, and begins from the best plan before the round. The best plan that they
// find is kept; the first member wins ties. Slices are counted in work, not in time, so the result is the same for any
// number of threads, unless a time limit ends the search. Slices grow, so that easy problems end early.
//
// For conflicts beyond lifetimes and shapes, there are more members: a search on pairs, which is exact if buffers are
// few, a search by ejection, and one by orders. Groups of buffers that conflict with all others have a portfolio each
// (auto/bands.hpp). docs/optimiser.md has the members of each kind of problem.
//
// Complexity: O(n log n) and a dive, then as much as the effort allows. Guarantee: it never peaks above the plans with
// which it begins.
#include "auto/auto.hpp"

#include "auto/around_pins.hpp"
#include "auto/band_rounds.hpp"
#include "auto/granule_search.hpp"
#include "placing/best_so_far.hpp"

namespace memplan {

Placement portfolio(const Problem& problem, const PlanOptions& options) {
  if (problem.has_pins() || !problem.reserved().empty()) return around_pins(problem, options, portfolio, kPortfolio[0]);
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    GranuleSearch(problem, options, best, rounds_of_band).run(deadline);
  });
}

}  // namespace memplan
