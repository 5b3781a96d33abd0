#include "problem/orders.hpp"

#include <algorithm>

#include "base/sorting.hpp"

namespace memplan {

std::vector<Index> with_bytes(const Problem& problem) {
  std::vector<Index> order;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0) order.push_back(i);
  return order;
}

std::vector<Index> by_birth(const Problem& problem) { return sorted_by(problem.first(), with_bytes(problem)); }

std::vector<Index> by_death(const Problem& problem) { return sorted_by(problem.last(), with_bytes(problem)); }

std::vector<std::int64_t> conflict_counts(const Problem& problem, std::span<const Index> buffers,
                                          const Deadline& deadline) {
  std::vector<Step> births, deaths;
  for (Index i : buffers) {
    births.push_back(problem.first(i));
    deaths.push_back(problem.last(i));
  }
  const auto earlier = deadline.ticking([](Step a, Step b) { return a < b; });
  std::sort(births.begin(), births.end(), earlier);
  std::sort(deaths.begin(), deaths.end(), earlier);
  std::vector<std::int64_t> counts(problem.size().size(), 0);
  for (Index i : buffers) {
    const auto born = std::lower_bound(births.begin(), births.end(), problem.last(i), earlier) - births.begin();
    const auto dead = std::upper_bound(deaths.begin(), deaths.end(), problem.first(i), earlier) - deaths.begin();
    std::int64_t& count = counts[at(i)];
    count = born - dead - 1;  // without itself
    if (problem.conflicts() == nullptr) continue;
    problem.conflicts()->for_each(i, [&](Index other) {
      deadline.tick();
      if (problem.size(other) > 0 && !problem.alive_together(i, other)) ++count;
    });
  }
  return counts;
}

}  // namespace memplan
