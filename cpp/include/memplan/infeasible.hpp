// Infeasible: that no plan fits a capacity, or that none was found, and which buffers need the most at once.
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

// The message says what is needed and lists the largest buffers alive at the tightest step, where the load is; or the
// largest of the heaviest clique, if that needs more.
struct InfeasibleError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;

  bool proven() const { return lower_bound > capacity; }  // no plan fits; else no plan was found

  Bytes capacity = 0;
  Bytes lower_bound = 0;           // proven: so much is needed; by a graph in its order, whatever is shared
  std::optional<Plan> plan;        // the best that was found, verified; none if the bound alone exceeds the capacity
  std::optional<Buffers> buffers;  // of a graph that was planned
  std::shared_ptr<const Graph>
      graph;                       // of the plan and the buffers, if another order than the given one was planned too
  Step step = 0;                   // the tightest
  std::vector<std::string> alive;  // the buffers in use there, or the members of the clique, most bytes first
  std::optional<Clique> clique;    // if it needs more than the tightest step
};

// The error for a problem; `plan` is the best that was found, if any. As long as a search for the heaviest clique.
InfeasibleError infeasible(const Problem& problem, Bytes capacity, Bytes lower_bound, std::optional<Plan> plan = {},
                           std::optional<Buffers> buffers = {});

// Throws InfeasibleError if the plan, perhaps of a graph, does not fit the capacity.
void require_fit(const Problem& problem, Bytes capacity, const Plan& plan, std::optional<Buffers> buffers = {});

}  // namespace memplan
