// Around pins: plans of problems with pinned buffers and reserved bytes, by those of problems that have neither.
//
// Whether a plan fits a capacity is a question without pins. All that is fixed becomes one shaped buffer, the ground,
// which is as large as the capacity, and so can only lie at 0:
//
//     capacity ┌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┐        what is pinned and reserved are the ground's parts;
//              ╎  ┌────┐ ┌────┐        all else of it is free for others
//              ╎  │ #3 │ │####│ reserved
//              ┌──┴─┐  └─┴────┤
//            0 │ #1 │         ╎
//              └────┴╌╌╌╌╌╌╌╌╌┘▶ step
//
// A pinned buffer that conflicts with another whatever their lifetimes meets it at a step of their own, after all
// others.
#pragma once

#include <functional>

#include "memplan/planner.hpp"

namespace memplan {

// Places what fits first around what is fixed, then asks `planner` for plans within capacities between the bound and
// the best peak: at the bound first, then in the middle. It proves what the planner proves.
Placement around_pins(const Problem& problem, const PlanOptions& options,
                      const std::function<Placement(const Problem&, const PlanOptions&)>& planner,
                      const Parameter& effort);

}  // namespace memplan
