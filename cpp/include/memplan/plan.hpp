// Plan: an offset for every buffer, and what is known about how good it is; and the placement that it is made of.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// What a planner gives.
struct Placement {
  std::vector<Bytes> offsets;
  std::string_view winner = {};  // for portfolios: the member whose offsets these are
  Bytes lower_bound = 0;         // for exact planners: proven, no plan of the problem peaks below
  Index objects = 0;             // for planners that share blocks of memory, laid end to end: how many; else 0
  bool searched = false;         // by a planner that gives its best so far when it has to end
  bool interrupted = false;      // someone asked the planner to end, by a way of its own
};

struct Plan {
  std::vector<Bytes> offsets;  // per buffer of the problem
  Bytes peak = 0;              // the highest offset + size: what must be allocated
  Bytes lower_bound = 0;       // no plan of the problem peaks below; for a graph: in its order, whatever is shared
  bool optimal = false;        // proven: peak equals the lower bound
  Bytes placement_bound = 0;   // no plan of the problem peaks below it, what shares bytes in it being decided
  Index objects = 0;           // for planners that share blocks of memory, laid end to end: how many; else 0
  bool searched = false;       // by a planner that gives its best so far when it has to end
  std::string planner;         // the planner asked for, with its parameters
  std::string winner;          // the planner whose offsets these are; differs for portfolios
  bool interrupted = false;    // someone asked the search to end: it might have gone on
  double seconds = 0;          // wall time of planning, without the verification
  double found_after = 0;      // seconds until these offsets were found; the rest looked for better ones
};

// Throws ProblemError unless there is one offset per buffer.
void require_one_per_buffer(const Problem& problem, std::span<const Bytes> offsets);

// The highest offset + size, 0 without buffers; each offset is >= 0. O(n).
Bytes peak_of(const Problem& problem, std::span<const Bytes> offsets);

}  // namespace memplan
