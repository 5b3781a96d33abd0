#include "split/region_order.hpp"

#include <functional>
#include <queue>
#include <utility>

#include "memplan/happens_before.hpp"
#include "memplan/split.hpp"

namespace memplan {

std::vector<Index> order_with_regions(const Graph& graph, const std::vector<Index>& region_of, std::size_t regions) {
  const Index ops = graph.op_count();
  const std::vector<std::vector<Index>> waits = waits_of(graph);
  std::vector<Index> key(at(ops) + regions, 0), waiting(key.size(), 0);
  std::vector<std::vector<Index>> followers(key.size());
  const auto node_of = [&](Index k) { return region_of[at(k)] == kNone ? k : ops + region_of[at(k)]; };
  for (Index k = 0; k < ops; ++k) {
    const Index node = node_of(k);
    key[at(node)] = k;  // ascending, so that the last op of a region stays
    for (const Index before : waits[at(k)]) {
      if (node_of(before) == node) continue;
      followers[at(node_of(before))].push_back(node);
      ++waiting[at(node)];
    }
  }
  using Entry = std::pair<Index, Index>;  // key, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<bool> exists(key.size(), false);
  for (Index k = 0; k < ops; ++k) exists[at(node_of(k))] = true;
  std::size_t count = 0;
  for (Index node = 0; at(node) < key.size(); ++node) {
    if (!exists[at(node)]) continue;
    ++count;
    if (waiting[at(node)] == 0) ready.emplace(key[at(node)], node);
  }
  std::vector<Index> order;
  while (!ready.empty()) {
    const Index node = ready.top().second;
    ready.pop();
    order.push_back(node);
    for (const Index follower : followers[at(node)])
      if (--waiting[at(follower)] == 0) ready.emplace(key[at(follower)], follower);
  }
  if (order.size() == count) return order;
  for (Index k = 0; k < ops; ++k)
    if (region_of[at(k)] == kNone && waiting[at(k)] > 0)
      throw RegionError("op " + quoted(graph.op(k).name) +
                        " needs what a region makes, and makes what the same region or another needs");
  throw RegionError("regions need each other");
}

}  // namespace memplan
