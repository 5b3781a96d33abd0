// The planner "auto", which the registry lists.
#pragma once

#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

inline constexpr Parameter kPortfolio[] = {
    {"effort", "steps of work of all members together; without end where only a time limit is given", 1'000'000'000, 0,
     kMaxBytes}};
Placement portfolio(const Problem& problem, const PlanOptions& options);

}  // namespace memplan
