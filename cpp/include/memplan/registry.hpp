// Registry: the one table of planners. The command line's help, the documents and the tests are made from its rows.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "memplan/planner.hpp"

namespace memplan {

std::span<const PlannerInfo> planners();

// A planner with its parameters. The row of the planner must outlive this struct.
struct ChosenPlanner {
  const PlannerInfo& planner;
  std::string asked;  // the text that chose it
  Settings set;
};

// Reads "name" or "name:parameter=value,…". The name may be an alias. Throws std::invalid_argument, which lists the
// known names, parameters or values.
ChosenPlanner choose_planner(std::string_view text);

// The same for a planner outside the table. The name in `text` does not count.
ChosenPlanner choose_planner(const PlannerInfo& planner, std::string_view text);

}  // namespace memplan
