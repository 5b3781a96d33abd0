// Infeasible: the error that no plan fits a capacity, or that none was found. It has the buffers that need the most
// bytes at once.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "memplan/buffers.hpp"
#include "memplan/clique.hpp"
#include "memplan/graph.hpp"
#include "memplan/plan.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// The message says how many bytes are needed. It lists the largest buffers at the *tightest* step, the step with the
// largest load. If the heaviest clique needs more bytes than this step, the message lists the clique's largest buffers
// instead.
struct InfeasibleError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;

  bool proven() const { return lower_bound > capacity; }  // no plan fits; if false, no plan was found

  Bytes capacity = 0;
  Bytes lower_bound = 0;     // proven: every plan needs so many bytes; for a graph, in its order, with any sharing
  std::optional<Plan> plan;  // the best that was found, verified; no value if the bound exceeds the capacity
  std::optional<Buffers> buffers;  // of the graph, if a graph was planned
  std::shared_ptr<const Graph>
      graph;                       // of the plan and the buffers, if another order than the given one was planned too
  Step step = 0;                   // the tightest
  std::vector<std::string> alive;  // the buffers in use at `step`, or the members of the clique, most bytes first
  std::optional<Clique> clique;    // if the clique needs more than the tightest step
};

// Makes the error for a problem. `plan` is the best plan that was found, if any. Takes as long as a search for the
// heaviest clique.
InfeasibleError infeasible(const Problem& problem, Bytes capacity, Bytes lower_bound, std::optional<Plan> plan = {},
                           std::optional<Buffers> buffers = {});

// Throws InfeasibleError if the plan, perhaps of a graph, does not fit the capacity.
void require_fit(const Problem& problem, Bytes capacity, const Plan& plan, std::optional<Buffers> buffers = {});

}  // namespace memplan
