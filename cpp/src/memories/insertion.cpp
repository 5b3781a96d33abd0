#include "memories/insertion.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "placing/placed.hpp"

namespace memplan {

Bytes alignment_in(const MemoryRequest& request, Index buffer, std::size_t pool) {
  return std::lcm(request.problem.alignment(buffer), request.pools[pool].alignment);
}

std::vector<Index> cheapest_pools(const MemoryRequest& request, Index buffer) {
  std::vector<Index> pools;
  for (std::size_t p = 0; p < request.pools.size(); ++p)
    if (request.cost_of(buffer, p) != kRefused) pools.push_back(static_cast<Index>(p));
  std::stable_sort(pools.begin(), pools.end(),
                   [&](Index a, Index b) { return request.cost_of(buffer, at(a)) < request.cost_of(buffer, at(b)); });
  return pools;
}

Assignment insert_in_order(const MemoryRequest& request, const std::vector<Index>& order, const Assignment& start,
                           const std::vector<char>& kept, const Deadline& deadline) {
  const Problem& problem = request.problem;
  std::vector<std::unique_ptr<Placed>> placed(request.pools.size());
  for (std::size_t p = 0; p < placed.size(); ++p)
    if (request.pools[p].capacity) placed[p] = std::make_unique<Placed>(problem, deadline);
  Assignment found;
  found.cost = 0;
  found.pool.assign(at(problem.count()), kNone);
  found.offset.assign(at(problem.count()), 0);
  const auto put = [&](Index i, std::size_t pool, Bytes offset) {
    found.pool[at(i)] = static_cast<Index>(pool);
    found.offset[at(i)] = offset;
    found.cost += request.cost_of(i, pool);
    if (placed[pool] && problem.size(i) > 0) placed[pool]->add(i, offset);
  };
  for (Index i = 0; i < problem.count(); ++i)
    if (!kept.empty() && kept[at(i)]) put(i, at(start.pool[at(i)]), start.offset[at(i)]);
  for (Index i : order) {
    if (found.pool[at(i)] != kNone) continue;
    for (const Index pool : cheapest_pools(request, i)) {
      const std::size_t p = at(pool);
      Bytes offset = 0;
      if (placed[p] && problem.size(i) > 0) {
        offset = lowest_fit(placed[p]->room(i), alignment_in(request, i, p));
        if (offset > *request.pools[p].capacity - problem.size(i)) continue;
      }
      put(i, p, offset);
      break;
    }
    if (found.pool[at(i)] == kNone) return {};
  }
  return found;
}

}  // namespace memplan
