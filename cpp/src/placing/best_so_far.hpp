// The best plan so far, with which a search ends if it has to end.
#pragma once

#include <utility>

#include "base/deadline.hpp"
#include "memplan/errors.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// A plan to keep until a search has one of its own: by birth, each buffer as low as it can be. That is the plan of
// first_fit, unless buffers conflict beyond their lifetimes; what is pinned or reserved is in the way from the start.
// Once the deadline passes, all other buffers go on top, without reuse. Buffers that conflict by lifetimes alone are
// placed if that takes little work for each, whatever the deadline says; a few always, if none is pinned.
Placement first_plan(const Problem& problem, const Deadline& deadline);

// The lower of two plans that begin from an earlier one, whose offsets are options.warm. In one, each buffer stays
// where it was if nothing is in the way, and the others go as low as they can. In the other, all go as low as they can,
// in the order of their offsets. Once the deadline passes, all other buffers go on top.
Placement warm_plan(const Problem& problem, const PlanOptions& options, const Deadline& deadline);

// Calls search(best, deadline), which puts better placements into `best` until it ends or the deadline passes. At first
// `best` is first_plan, or an earlier plan to start from if the earlier plan peaks no higher. If the earlier plan is
// low enough, nothing is searched. Nobody is told of plans that peak higher than it.
template <class Search>
Placement best_so_far(const Problem& problem, const PlanOptions& options, Search&& search) {
  const Deadline deadline(options);
  Placement best = first_plan(problem, deadline);
  Placement start;
  Bytes peak = kMaxBytes;
  if (!options.warm.empty()) {
    start = warm_plan(problem, options, deadline);
    peak = peak_of(problem, start.offsets);
    if (peak <= peak_of(problem, best.offsets)) best = start;
    options.tell({start.offsets, peak, 0, start.winner});
  }
  if (options.warm.empty() || peak > options.enough(options.lower_bound)) in_time([&] { search(best, deadline); });
  if (peak < peak_of(problem, best.offsets)) {
    best.offsets = std::move(start.offsets);
    best.winner = start.winner;
  }
  best.searched = true;
  return best;
}

}  // namespace memplan
