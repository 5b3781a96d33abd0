// Registry: the one table of planners. What exists can be read here; the command line's help, the
// documents and the tests are made from these rows.
#pragma once

#include <span>
#include <string_view>

#include "memplan/planner.hpp"

namespace memplan {

std::span<const PlannerInfo> planners();

// The row of that name; throws std::invalid_argument that lists the names.
const PlannerInfo& find_planner(std::string_view name);

}  // namespace memplan
