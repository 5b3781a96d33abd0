// FitSolver: plans of a changed graph, as solve_fit.hpp draws it, and of the graph as it is.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "memplan/infeasible.hpp"
#include "memplan/solve_fit.hpp"

namespace memplan {

// The plan of a graph as it is, or why there is none.
struct TriedAsItIs {
  std::optional<FittedPlan> plan = {};
  std::optional<InfeasibleError> refused = {};  // neither: the planner does not take the graph
};

// The plan of the unchanged graph, within the capacity; without a capacity, the lowest that is found. It is no error if
// there is none: the changed graph may have other features, and a plan.
TriedAsItIs try_as_it_is(const AsItIs& given, const ChosenPlanner& planner, std::optional<Bytes> capacity,
                         const FitOptions& options);

// The load to ask for next, where a graph of this `load` was made for the load `asked`, and has no plan within the
// capacity: less by what is missing, and below `load`, so that the same graph does not come again.
Bytes next_load(Bytes asked, Bytes load, Bytes capacity, const InfeasibleError& refused);

// As solve_fit. `refused`: why this graph, with these options, has no plan.
FittedPlan solve_changed(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                         const StorageOptions& storage, const FitOptions& options, bool reorder,
                         const ChosenPlanner& planner, std::optional<InfeasibleError> refused = {});

// As solve_fit_least. `as_it_is`: a plan that is taken unless another peaks lower.
FittedPlan solve_changed_least(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                               const StorageOptions& storage, const FitOptions& options, bool reorder,
                               const ChosenPlanner& planner, std::optional<FittedPlan> as_it_is = {});

}  // namespace memplan
