// The planners' entry points, one per file of this folder; registry.cpp lists them.
#pragma once

#include "memplan/planner.hpp"

namespace memplan {

Placement naive(const Problem& problem, const PlanOptions& options);
Placement first_fit(const Problem& problem, const PlanOptions& options);
Placement best_fit(const Problem& problem, const PlanOptions& options);
Placement worst_fit(const Problem& problem, const PlanOptions& options);
Placement greedy_by_size(const Problem& problem, const PlanOptions& options);
Placement portfolio(const Problem& problem, const PlanOptions& options);  // the planner "auto"

}  // namespace memplan
