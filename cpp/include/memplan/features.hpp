// Features: properties of a problem or its options that a planner may not support.
#pragma once

#include <string_view>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// Each feature is a bit of PlannerInfo::supports. A problem may use all features but kStart. kStart stands for the options
// with an earlier plan.
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

// The features of a problem.
unsigned features_of(const Problem& problem);

}  // namespace memplan
