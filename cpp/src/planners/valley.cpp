// valley: the exact search from valley to valley, with a capacity or down to the optimum.
//
// With a capacity, runs of the search at it go on until there is a plan, a proof that there is none, or the work is
// spent. Without one, the gap between the plan of greedy_by_size and the load is closed from both sides (squeeze.hpp).
// The search itself is explained in valley_search.hpp, and what it infers in floors.hpp; each inference may be switched
// off, and it stays exact.
//
// Complexity: exponential in the worst case; a dive without backtracking costs O(sections covered + items that begin in
// the lives of what is placed, times log S for S sections).
// Guarantee: an optimum, with its proof, or an answer for the capacity, unless the work or the time limit runs out.
// Source: memplan.

#include "memplan/plan.hpp"
#include "planners/planners.hpp"
#include "search/squeeze.hpp"

namespace memplan {

Placement valley(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  const auto is_on = [&](std::size_t k) { return options.get(kValley[k]) != 0; };
  const Inferences use{is_on(1), is_on(2), is_on(3), is_on(4), is_on(5), is_on(6), is_on(7)};
  const std::int64_t work = options.get(kValley[0]);
  const Sections sections(problem);
  Squeeze squeeze(problem, sections, sections.highest_load(), options.seed, 2, use);
  Placement best = greedy_by_size(problem, options);
  Bytes peak = peak_of(problem, best.offsets);
  const auto tell = [&] {
    if (options.improved) options.improved({best.offsets, peak, squeeze.lower_bound(), {}});
  };
  tell();
  const Bytes enough = options.capacity.value_or(0);
  while (peak > enough && squeeze.lower_bound() < peak && squeeze.work() < work && !deadline.passed()) {
    if (options.capacity && squeeze.lower_bound() > enough) break;
    const bool better = options.capacity ? squeeze.attempt(enough, work, deadline) == ValleySearch::Outcome::found
                                         : squeeze.step(peak, work, deadline);
    if (!better) continue;
    best.offsets = squeeze.offsets();
    peak = peak_of(problem, best.offsets);
    tell();
  }
  best.lower_bound = squeeze.lower_bound();
  return best;
}

}  // namespace memplan
