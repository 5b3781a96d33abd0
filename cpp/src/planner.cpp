#include "memplan/planner.hpp"

#include <algorithm>

#include "memplan/errors.hpp"

namespace memplan {

std::vector<std::string_view> feature_names(unsigned features) {
  std::vector<std::string_view> names;
  if (features & kAlignment) names.push_back("alignment");
  return names;
}

unsigned required_features(const Problem& problem) {
  const auto aligned = [](Bytes alignment) { return alignment > 1; };
  return std::any_of(problem.alignment().begin(), problem.alignment().end(), aligned) ? unsigned{kAlignment} : 0u;
}

void require_support(const PlannerInfo& planner, const Problem& problem) {
  const unsigned missing = required_features(problem) & ~planner.supports;
  if (missing == 0) return;
  std::string list;
  for (std::string_view name : feature_names(missing)) list += (list.empty() ? "" : ", ") + std::string(name);
  throw UnsupportedError("planner '" + std::string(planner.name) + "' does not support " + list +
                         ", which this problem asks for");
}

}  // namespace memplan
