// Registry: the one table of planners. What exists can be read here; the command line's help, the
// documents and the tests are made from these rows.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "memplan/planner.hpp"

namespace memplan {

std::span<const PlannerInfo> planners();

// A planner and the parameters that it is given. The planner, whose row it looks at, outlives it.
struct ChosenPlanner {
  const PlannerInfo& planner;
  std::string asked;  // the text that chose it
  Settings set;
};

// What "name" or "name:parameter=value,…" means, the name being an alias perhaps. Throws std::invalid_argument that
// lists the names, the parameters, or the values that it takes.
ChosenPlanner choose_planner(std::string_view text);

// The same for a planner outside the table, whatever name the text says.
ChosenPlanner choose_planner(const PlannerInfo& planner, std::string_view text);

}  // namespace memplan
