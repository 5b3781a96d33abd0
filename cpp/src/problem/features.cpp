#include "memplan/features.hpp"

#include <algorithm>

namespace memplan {

std::vector<std::string_view> feature_names(unsigned features) {
  std::vector<std::string_view> names;
  if (features & kAlignment) names.push_back("alignment");
  if (features & kShapes) names.push_back("shapes");
  if (features & kConflicts) names.push_back("conflicts");
  if (features & kPins) names.push_back("pins");
  if (features & kReserved) names.push_back("reserved");
  if (features & kBranches) names.push_back("branches");
  if (features & kStart) names.push_back("start");
  return names;
}

unsigned features_of(const Problem& problem) {
  const auto aligned = [](Bytes alignment) { return alignment > 1; };
  unsigned features = 0;
  if (std::any_of(problem.alignment().begin(), problem.alignment().end(), aligned)) features |= kAlignment;
  if (problem.has_shapes()) features |= kShapes;
  if (problem.conflicts() != nullptr) features |= kConflicts;
  if (problem.has_pins()) features |= kPins;
  if (!problem.reserved().empty()) features |= kReserved;
  if (problem.has_branches()) features |= kBranches;
  return features;
}

}  // namespace memplan
