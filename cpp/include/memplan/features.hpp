// Features: what a problem, or its options, may ask for beyond sizes and lifetimes.
#pragma once

#include <string_view>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// What may be asked of a planner beyond sizes and lifetimes, by a problem or, kStart, by options; bits of
// PlannerInfo::supports.
enum Feature : unsigned {
  kAlignment = 1u << 0,
  kShapes = 1u << 1,
  kConflicts = 1u << 2,
  kPins = 1u << 3,
  kReserved = 1u << 4,
  kBranches = 1u << 5,
  kStart = 1u << 6,
};
inline constexpr Feature kFeatures[] = {kAlignment, kShapes, kConflicts, kPins, kReserved, kBranches, kStart};

// The names of the features in `features`, in a fixed order.
std::vector<std::string_view> feature_names(unsigned features);

// What a problem has that a planner may not support.
unsigned features_of(const Problem& problem);

}  // namespace memplan
