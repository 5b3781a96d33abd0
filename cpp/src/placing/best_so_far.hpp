// The best plan so far: what a search ends with when it has to.
#pragma once

#include <utility>

#include "memplan/errors.hpp"
#include "memplan/planner.hpp"
#include "placing/deadline.hpp"

namespace memplan {

// A plan to keep until a search has one of its own: by birth, each buffer as low as it can be, which is the plan of
// first_fit where no two conflict beyond their lifetimes. Once the deadline passes, what is yet to be placed goes on
// top of all, without reuse.
Placement first_plan(const Problem& problem, const Deadline& deadline);

// Calls search(best, deadline), which puts better placements into `best`, that of first_plan at first, until it ends or
// the deadline passes.
template <class Search>
Placement best_so_far(const Problem& problem, const PlanOptions& options, Search&& search) {
  const Deadline deadline(options);
  Placement best = first_plan(problem, deadline);
  try {
    search(best, deadline);
  } catch (const EndedError&) {
  }
  best.searched = true;
  return best;
}

}  // namespace memplan
