#include "pools/insertion.hpp"

#include <algorithm>
#include <memory>

#include "placing/placed.hpp"

namespace memplan {

std::vector<Index> cheapest_pools(const PoolProblems& problems, Index group) {
  std::vector<Index> pools;
  for (std::size_t p = 0; p < problems.pools(); ++p)
    if (problems.cost_of(group, p) != kRefused) pools.push_back(static_cast<Index>(p));
  std::stable_sort(pools.begin(), pools.end(),
                   [&](Index a, Index b) { return problems.cost_of(group, at(a)) < problems.cost_of(group, at(b)); });
  return pools;
}

Assignment insert_in_order(const PoolProblems& problems, const std::vector<Index>& order, const Assignment& start,
                           const std::vector<char>& kept, const Deadline& deadline) {
  std::vector<std::unique_ptr<Placed>> placed(problems.pools());
  bool is_time = in_time([&] {  // else a pool with a capacity has no room any more
    for (std::size_t p = 0; p < placed.size(); ++p)
      if (problems.capacity(p)) placed[p] = std::make_unique<Placed>(problems.in(p), deadline);
  });
  Assignment found;
  found.cost = 0;
  found.pool.assign(at(problems.count()), kNone);
  found.offset.assign(at(problems.count()), 0);
  const auto put = [&](Index i, std::size_t pool, Bytes offset) {
    found.pool[at(i)] = static_cast<Index>(pool);
    found.offset[at(i)] = offset;
    found.cost += problems.cost_of(i, pool);
    if (placed[pool] && problems.in(pool).pin(i) == kNowhere) placed[pool]->add(i, offset);
  };
  for (Index i = 0; i < problems.count(); ++i)
    if (!kept.empty() && kept[at(i)]) put(i, at(start.pool[at(i)]), start.offset[at(i)]);
  for (Index i : order) {
    if (found.pool[at(i)] != kNone) continue;
    for (const Index pool : cheapest_pools(problems, i)) {
      const std::size_t p = at(pool);
      const Problem& problem = problems.in(p);
      Bytes offset = std::max<Bytes>(problem.pin(i), 0);
      if (problems.capacity(p) && problem.size(i) > 0 && problem.pin(i) == kNowhere) {
        is_time = is_time && in_time([&] { offset = lowest_fit(placed[p]->room(i), problem.alignment(i)); });
        if (!is_time) continue;
        if (offset > *problems.capacity(p) - problem.size(i)) continue;
      }
      put(i, p, offset);
      break;
    }
    if (found.pool[at(i)] == kNone) return {};
  }
  return found;
}

}  // namespace memplan
