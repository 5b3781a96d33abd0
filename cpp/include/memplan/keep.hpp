// Keep: a plan that changes few offsets of an earlier plan.
//
//     earlier        later, c has grown         c pushes up d, which lies on it. Then groups of moved buffers go
//     │  d  │          │  d  │                  back to their earlier offsets, if the others can be placed
//     │  c  │    ─▶    │  c  │                  around them.
//     │ a b │          │ a b │
//
// A *wish* is the earlier offset of a buffer. A buffer that does not begin at its wish has *moved*. Of all plans that
// peak at or below a limit, keep() looks for a plan in which the fewest buffers have moved.
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
  std::vector<Index> moved;  // buffers that have moved, without those of 0 bytes
  Index moved_bound = 0;     // proven: every plan at or below the limit moves at least so many
};

// `plan` is a plan of the problem. `wishes` has the wish of each buffer, or kNowhere for a buffer without a wish. The
// limit is the peak of `plan`, or the capacity of `options` if the capacity is higher.
//
// If at most 16 wishes are in doubt, a search looks for sets of wishes that cannot be kept together. Each such set has
// to give up a wish. If the planner "auto" can answer all questions of this search, the number of moves is proven to be
// the least. If more wishes are in doubt, keep() holds groups of buffers at their wishes, and greedy_by_size places the
// other buffers around. The groups become smaller and smaller. There are at most 200 tries, fewer for large n, each O(n
// log n).
//
// The time limit counts from options.start. The time limit or `stop` ends the search with the best plan so far. After
// `stop`, the plan is `interrupted`. Throws ProblemError unless there are one offset and one wish per buffer.
Kept keep(const Problem& problem, Plan plan, std::span<const Bytes> wishes, const PlanOptions& options = {});

// solve_keeping() first finds a plan, and then changes this plan. The share of the time limit for the first part, if
// the planner searches:
inline constexpr double kPartBeforeKeep = 0.5;

// Like keep(), but it finds the plan first. The time limit is for both parts. Also throws the errors of solve().
Kept solve_keeping(const Problem& problem, std::span<const Bytes> wishes, const PlanOptions& options = {},
                   const ChosenPlanner& planner = choose_planner("auto"));

}  // namespace memplan
