#include "memplan/registry.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include "planners/planners.hpp"

namespace memplan {

namespace {

constexpr std::string_view kFits =
    "overview of greedy, beam and exhaustive planning (Tensor lifetime optimisation); Knuth, TAOCP 1, 2.5";

// name, title, exact, supports, complexity, source, function. A planner is one file in planners/ and one row here.
constexpr std::array<PlannerInfo, 6> kPlanners = {{
    {"auto", "best of first_fit, best_fit and greedy_by_size; stops at the load", false, kAlignment,
     "that of its members", "memplan", portfolio},
    {"naive", "every buffer its own bytes: no reuse", false, kAlignment, "O(n)", "the baseline of every comparison",
     naive},
    {"first_fit", "by birth, into the lowest free block that fits", false, kAlignment, "O(n log n)", kFits, first_fit},
    {"best_fit", "by birth, into the tightest free block that fits", false, kAlignment, "O(n log n)", kFits, best_fit},
    {"worst_fit", "by birth, into the largest free block that fits", false, kAlignment, "O(n log n)", kFits, worst_fit},
    {"greedy_by_size", "the largest first, into the tightest gap", false, kAlignment, "O(n r log n)",
     "Pisarchyk and Lee 2020; TFLite, TFLM, IREE", greedy_by_size},
}};

}  // namespace

std::span<const PlannerInfo> planners() { return kPlanners; }

const PlannerInfo& find_planner(std::string_view name) {
  for (const PlannerInfo& planner : kPlanners)
    if (planner.name == name) return planner;
  std::string names;
  for (const PlannerInfo& planner : kPlanners) names += (names.empty() ? "" : ", ") + std::string(planner.name);
  throw std::invalid_argument("planner must be one of " + names + ", got '" + std::string(name) + "'");
}

}  // namespace memplan
