// Plan: an offset for every buffer, with bounds and figures. A Placement is what a planner returns.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// The result of a planner.
struct Placement {
  std::vector<Bytes> offsets;
  std::string_view winner = {};  // for portfolios: the member whose offsets these are
  Bytes lower_bound = 0;         // for exact planners, proven: no plan of the problem peaks below it
  Index objects = 0;             // the number of shared objects, for planners that use these; else 0
  bool searched = false;         // the planner returns its best plan so far when it has to end
  bool interrupted = false;      // Ctrl-C or the like ended a planner that is not of the core
};

struct Plan {
  std::vector<Bytes> offsets;  // per buffer of the problem
  Bytes peak = 0;              // the highest offset + size: the bytes to allocate
  Bytes lower_bound = 0;       // no plan of the problem peaks below; for a graph, in its order, with any sharing
  bool optimal = false;        // proven: peak equals the lower bound
  Bytes placement_bound = 0;   // no plan of the problem peaks below, with the sharing of this problem
  Index objects = 0;           // the number of shared objects, for planners that use these; else 0
  bool searched = false;       // the planner returns its best plan so far when it has to end
  std::string planner;         // the planner asked for, with its parameters
  std::string winner;          // the planner that found the offsets; for portfolios, a member
  bool interrupted = false;    // `stop` ended the search early
  double seconds = 0;          // wall time of planning, without the verification
  double found_after = 0;      // seconds until these offsets were found
};

// Throws ProblemError unless there is one offset per buffer.
void require_one_per_buffer(const Problem& problem, std::span<const Bytes> offsets);

// The highest offset + size, 0 without buffers; each offset is >= 0. O(n).
Bytes peak_of(const Problem& problem, std::span<const Bytes> offsets);

}  // namespace memplan
