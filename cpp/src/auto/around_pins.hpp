// Around pins: plans of problems with pinned buffers and reserved bytes, by a planner that knows neither.
//
// The question whether any plan fits a capacity can be asked without pins (ground.hpp).
#pragma once

#include <functional>

#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Takes the best of some greedy plans around pins and reserved bytes. Then it asks `planner` for a plan within the
// bound, and bisects the range between the bound and the best peak. The proofs of the planner hold for it too.
Placement around_pins(const Problem& problem, const PlanOptions& options,
                      const std::function<Placement(const Problem&, const PlanOptions&)>& planner,
                      const Parameter& effort);

}  // namespace memplan
