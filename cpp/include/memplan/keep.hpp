// Keep: a plan that changes few offsets of an earlier one.
//
//     earlier        later, c has grown         what has grown pushes up what lies on it;
//     │  d  │          │  d  │                  of what has moved then, as much as can be found
//     │  c  │    ─▶    │  c  │                  goes back to where it was, the rest around it
//     │ a b │          │ a b │
//
// Among the plans that peak at or below a limit, one is looked for in which fewest buffers lie elsewhere than they did.
#pragma once

#include <span>
#include <vector>

#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"

namespace memplan {

struct Kept {
  Plan plan;                 // verified; peak, optimal and seconds are those of its offsets
  std::vector<Index> moved;  // buffers with bytes that have a wish and lie elsewhere
  Index moved_bound = 0;     // proven: so many do in every plan at or below the limit
};

// `plan` is one of the problem, and `wishes` has where each buffer should begin, kNowhere where it does not matter. The
// limit is the peak of the plan, or the capacity of the options where that is higher.
//
// Few wishes, of problems that the planner "auto" decides, give the fewest moves, with their proof: sets of wishes that
// cannot all stay are found one by one, and some wish of each has to go. Many are kept in ever smaller pieces around
// which greedy_by_size places the rest: O(n log n) for each of at most 200 tries, fewer where n is large.
//
// The time limit, counted from options.start, and `stop` end the search with the best so far; `interrupted` says so for
// the latter. Throws ProblemError unless there are one offset and one wish per buffer.
Kept keep(const Problem& problem, Plan plan, std::span<const Bytes> wishes, const PlanOptions& options = {});

// Of a time limit, for the plan that is changed, if its planner searches.
inline constexpr double kPartBeforeKeep = 0.5;

// The same from a plan that is found first; the time limit is that of both. Throws as solve(), too.
Kept solve_keeping(const Problem& problem, std::span<const Bytes> wishes, const PlanOptions& options = {},
                   const ChosenPlanner& planner = choose_planner("auto"));

}  // namespace memplan
