#include "memplan/overlap.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace memplan {

OverlapIndex::OverlapIndex(const Problem& problem)
    : problem_(problem),
      leaves_(static_cast<Index>(std::bit_ceil(static_cast<std::uint32_t>(std::max(problem.count(), 1))))),
      by_birth_(static_cast<std::size_t>(problem.count())),
      rank_(static_cast<std::size_t>(problem.count())),
      latest_death_(2 * static_cast<std::size_t>(leaves_), std::numeric_limits<Step>::min()) {
  std::iota(by_birth_.begin(), by_birth_.end(), Index{0});
  std::stable_sort(by_birth_.begin(), by_birth_.end(),
                   [&](Index a, Index b) { return problem.first(a) < problem.first(b); });
  for (std::size_t r = 0; r < by_birth_.size(); ++r)
    rank_[static_cast<std::size_t>(by_birth_[r])] = static_cast<Index>(r);
}

void OverlapIndex::mark(Index buffer) {
  std::size_t node =
      static_cast<std::size_t>(leaves_) + static_cast<std::size_t>(rank_[static_cast<std::size_t>(buffer)]);
  for (; node > 0; node /= 2) latest_death_[node] = std::max(latest_death_[node], problem_.last(buffer));
}

Index OverlapIndex::births_before(Step step) const {
  const auto end = std::lower_bound(by_birth_.begin(), by_birth_.end(), step,
                                    [&](Index buffer, Step limit) { return problem_.first(buffer) < limit; });
  return static_cast<Index>(end - by_birth_.begin());
}

}  // namespace memplan
