// valley: the exact search from valley to valley, with a capacity or down to the optimum.
//
// With a capacity, runs of the search go on until there is a plan, or a proof that there is none, or the work is spent.
// Without a capacity, the gap between the plan of greedy_by_size and the load is closed from both sides (squeeze.hpp).
// valley_search.hpp explains the search. Each of its techniques may be switched off, and it stays exact.
//
// Complexity: exponential in the worst case; a dive without backtracking costs O(sections covered + items that begin in
// the lives of what is placed, times log S for S sections).
// Guarantee: an optimum, with its proof, or an answer for the capacity, unless the work or the time limit runs out.
// Source: memplan.

#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "planners/planners.hpp"
#include "search/stacks/squeeze.hpp"

namespace memplan {

Placement valley(const Problem& problem, const PlanOptions& options) {
  const auto is_on = [&](std::size_t k) { return options.get(kValley[k]) != 0; };
  const Inferences use{is_on(1), is_on(2), is_on(3), is_on(4), is_on(5), is_on(6), is_on(7), is_on(8)};
  const std::int64_t work = options.get(kValley[0]);
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    Placement greedy = greedy_by_size_until(problem, deadline);
    const bool warm = !options.warm.empty() && peak_of(problem, best.offsets) < peak_of(problem, greedy.offsets);
    if (!warm) best = std::move(greedy);
    Bytes peak = peak_of(problem, best.offsets);
    const Sections sections(problem, deadline);
    best.lower_bound = sections.highest_load();
    Squeeze squeeze(problem, sections, best.lower_bound, options.seed, deadline, 2, use);
    best.lower_bound = squeeze.lower_bound();
    const auto tell = [&] { options.tell({best.offsets, peak, best.lower_bound, {}}); };
    tell();
    const Bytes enough = options.capacity.value_or(0);
    while (peak > enough && best.lower_bound < peak && squeeze.work() < work && !deadline.passed()) {
      if (options.capacity && best.lower_bound > enough) break;
      const bool better = options.capacity ? squeeze.attempt(enough, work, deadline) == Decision::found
                                           : squeeze.step(peak, work, deadline);
      best.lower_bound = squeeze.lower_bound();
      if (!better) continue;
      best.offsets = squeeze.offsets();
      peak = peak_of(problem, best.offsets);
      tell();
    }
  });
}

}  // namespace memplan
