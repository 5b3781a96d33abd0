// The planners' entry points, one per file of this folder; registry.cpp lists them.
#pragma once

#include "deadline.hpp"
#include "memplan/planner.hpp"

namespace memplan {

Placement naive(const Problem& problem, const PlanOptions& options);
Placement first_fit(const Problem& problem, const PlanOptions& options);
Placement best_fit(const Problem& problem, const PlanOptions& options);
Placement worst_fit(const Problem& problem, const PlanOptions& options);
Placement greedy_by_size(const Problem& problem, const PlanOptions& options);
// greedy_by_size, or nothing if the deadline passes before it is done.
std::optional<Placement> greedy_by_size_until(const Problem& problem, const Deadline& deadline);
Placement megengine(const Problem& problem, const PlanOptions& options);
Placement interval_move(const Problem& problem, const PlanOptions& options);
Placement inductor_tree(const Problem& problem, const PlanOptions& options);

Placement portfolio(const Problem& problem, const PlanOptions& options);  // the planner "auto"

}  // namespace memplan
