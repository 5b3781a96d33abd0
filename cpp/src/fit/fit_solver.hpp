// FitSolver: plans of a graph of which something is given up, as solve_fit.hpp draws it, and that of the graph as it is.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "memplan/infeasible.hpp"
#include "memplan/solve_fit.hpp"

namespace memplan {

// What is tried of a graph as it is.
struct TriedAsItIs {
  std::optional<FittedPlan> plan = {};
  std::optional<InfeasibleError> refused = {};  // why there is none; neither: the planner does not take the graph
};

// The plan of a graph of which nothing is given up, within the capacity; without one, as low as is found. It is no error
// if there is none: what is made to fit may be of another kind, and have a plan.
TriedAsItIs try_as_it_is(const AsItIs& given, const ChosenPlanner& planner, std::optional<Bytes> capacity,
                         const FitOptions& options);

// As solve_fit. `refused`: why the plan of this graph, with these options, was.
FittedPlan solve_changed(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                         const StorageOptions& storage, const FitOptions& options, bool reorder,
                         const ChosenPlanner& planner, std::optional<InfeasibleError> refused = {});

// As solve_fit_least. `as_it_is`: a plan that is taken unless another peaks lower.
FittedPlan solve_changed_least(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                               const StorageOptions& storage, const FitOptions& options, bool reorder,
                               const ChosenPlanner& planner, std::optional<FittedPlan> as_it_is = {});

}  // namespace memplan
