// Around pins: plans of problems with pinned buffers and reserved bytes, by those of problems that have neither.
//
// Whether a plan fits a capacity is a question without pins (ground.hpp).
#pragma once

#include <functional>

#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Places what fits first around what is fixed, then asks `planner` for plans within capacities between the bound and
// the best peak: at the bound first, then in the middle. It proves what the planner proves.
Placement around_pins(const Problem& problem, const PlanOptions& options,
                      const std::function<Placement(const Problem&, const PlanOptions&)>& planner,
                      const Parameter& effort);

}  // namespace memplan
