// The best plan so far: what a search ends with when it has to.
#pragma once

#include <utility>

#include "base/deadline.hpp"
#include "memplan/errors.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// A plan to keep until a search has one of its own: by birth, each buffer as low as it can be, which is the plan of
// first_fit where no two conflict beyond their lifetimes. Once the deadline passes, what is yet to be placed goes on
// top of all, without reuse; but not of few buffers where no two conflict so.
Placement first_plan(const Problem& problem, const Deadline& deadline);

// The plan that begins as an earlier one did, whose offsets are options.warm: each buffer stays where it was if nothing
// is in the way, and the others go as low as they can; or all go as low as they can, in the order of their offsets, if
// that peaks lower. What the deadline leaves goes on top of all.
Placement warm_plan(const Problem& problem, const PlanOptions& options, const Deadline& deadline);

// Calls search(best, deadline), which puts better placements into `best`, that of first_plan at first, until it ends or
// the deadline passes. With an earlier plan to start from, `best` is that at first unless first_plan peaks lower;
// nobody is told of plans that peak higher, and if it is low enough nothing is searched.
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
  try {
    if (options.warm.empty() || peak > options.enough(options.lower_bound)) search(best, deadline);
  } catch (const EndedError&) {
  }
  if (peak < peak_of(problem, best.offsets)) {
    best.offsets = std::move(start.offsets);
    best.winner = start.winner;
  }
  best.searched = true;
  return best;
}

}  // namespace memplan
