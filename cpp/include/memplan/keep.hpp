// Keep: a plan that changes few offsets of an earlier one.
//
//     earlier        later, c has grown         c pushes up d, which lies on it. Then groups of moved buffers go
//     │  d  │          │  d  │                  back to their earlier offsets, if the others can be placed
//     │  c  │    ─▶    │  c  │                  around them.
//     │ a b │          │ a b │
//
// Of the plans that peak at or below a limit, it looks for one in which the fewest buffers have moved.
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
  std::vector<Index> moved;  // buffers with bytes that have a wish, and lie elsewhere
  Index moved_bound = 0;     // proven: at least so many have moved in every plan at or below the limit
};

// `plan` is a plan of the problem. `wishes` has where each buffer should begin, or kNowhere if that does not matter.
// The limit is the peak of the plan, or the capacity of the options if that is higher.
//
// If there are few wishes, and the planner "auto" can decide the problem, the moves are the fewest, and proven so: the
// search finds sets of wishes that cannot be kept together, and one wish of each has to go. If there are many wishes,
// ever smaller groups of them are kept, and greedy_by_size places the rest around them: at most 200 tries, fewer for
// large n, each O(n log n).
//
// The time limit, counted from options.start, and `stop` end the search with the best plan so far; after `stop`, the
// plan is `interrupted`. Throws ProblemError unless there are one offset and one wish per buffer.
Kept keep(const Problem& problem, Plan plan, std::span<const Bytes> wishes, const PlanOptions& options = {});

// Share of the time limit for the plan that is then changed, if its planner searches.
inline constexpr double kPartBeforeKeep = 0.5;

// The same, from a plan that it finds first. The time limit is for both. Throws what solve() throws, too.
Kept solve_keeping(const Problem& problem, std::span<const Bytes> wishes, const PlanOptions& options = {},
                   const ChosenPlanner& planner = choose_planner("auto"));

}  // namespace memplan
