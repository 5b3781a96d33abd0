#include "placing/in_order.hpp"

#include <algorithm>

namespace memplan {

std::vector<Index> with_bytes(const Problem& problem) {
  std::vector<Index> order;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0) order.push_back(i);
  return order;
}

std::vector<std::int64_t> conflict_counts(const Problem& problem, std::span<const Index> buffers) {
  std::vector<Step> births, deaths;
  for (Index i : buffers) {
    births.push_back(problem.first(i));
    deaths.push_back(problem.last(i));
  }
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());
  std::vector<std::int64_t> counts(problem.size().size(), 0);
  for (Index i : buffers) {
    const auto born = std::lower_bound(births.begin(), births.end(), problem.last(i)) - births.begin();
    const auto dead = std::upper_bound(deaths.begin(), deaths.end(), problem.first(i)) - deaths.begin();
    std::int64_t& count = counts[at(i)];
    count = born - dead - 1;  // without itself
    if (problem.conflicts() == nullptr) continue;
    problem.conflicts()->for_each(i, [&](Index other) {
      const bool together = problem.first(i) < problem.last(other) && problem.first(other) < problem.last(i);
      if (problem.size(other) > 0 && !together) ++count;
    });
  }
  return counts;
}

}  // namespace memplan
