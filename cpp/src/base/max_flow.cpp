#include "base/max_flow.hpp"

#include <algorithm>

namespace memplan {

void MaxFlow::clear() {
  edges_.clear();
  first_.clear();
  flow_ = 0;
  node();
  node();
}

Index MaxFlow::node() {
  first_.push_back(kNone);
  return static_cast<Index>(first_.size()) - 1;
}

Index MaxFlow::add(Index from, Index to, std::int64_t capacity) {
  const Index edge = static_cast<Index>(edges_.size());
  edges_.push_back({to, first_[at(from)], capacity});
  first_[at(from)] = edge;
  edges_.push_back({from, first_[at(to)], 0});
  first_[at(to)] = edge + 1;
  return edge;
}

void MaxFlow::count(std::size_t edges) {
  work_ += static_cast<std::int64_t>(edges);
  deadline_.tick(edges);
}

bool MaxFlow::grow(std::int64_t most) {
  const std::int64_t begin = work_;
  const auto is_spent = [&] { return work_ - begin >= most; };
  level_.resize(first_.size());
  while (!is_spent()) {
    if (!find_levels()) return true;
    next_ = first_;
    while (!is_spent()) {
      const std::int64_t pushed = push();
      if (pushed == 0) break;
      flow_ += pushed;
    }
  }
  return false;
}

bool MaxFlow::find_levels() {
  std::fill(level_.begin(), level_.end(), kNone);
  queue_.assign(1, kSource);
  level_[kSource] = 0;
  for (std::size_t head = 0; head < queue_.size(); ++head) {
    const Index node = queue_[head];
    std::size_t edges = 0;
    for (Index e = first_[at(node)]; e != kNone; e = edges_[at(e)].next, ++edges) {
      const Edge& edge = edges_[at(e)];
      if (edge.capacity == 0 || level_[at(edge.to)] != kNone) continue;
      level_[at(edge.to)] = level_[at(node)] + 1;
      queue_.push_back(edge.to);
    }
    count(edges + 1);
  }
  return level_[kSink] != kNone;
}

// Along one path of the levels; without recursion, as paths may be as long as the graph.
std::int64_t MaxFlow::push() {
  path_.clear();
  Index node = kSource;
  std::size_t edges = 0;
  while (node != kSink) {
    Index& e = next_[at(node)];
    for (; e != kNone; e = edges_[at(e)].next, ++edges)
      if (edges_[at(e)].capacity > 0 && level_[at(edges_[at(e)].to)] == level_[at(node)] + 1) break;
    ++edges;
    if (e != kNone) {
      path_.push_back(e);
      node = edges_[at(e)].to;
    } else {
      if (path_.empty()) break;
      node = edges_[at(path_.back() ^ 1)].to;
      path_.pop_back();
      next_[at(node)] = edges_[at(next_[at(node)])].next;
    }
  }
  count(edges);
  if (node != kSink) return 0;
  std::int64_t limit = kInfinite;
  for (const Index e : path_) limit = std::min(limit, edges_[at(e)].capacity);
  for (const Index e : path_) {
    edges_[at(e)].capacity -= limit;
    edges_[at(e ^ 1)].capacity += limit;
  }
  return limit;
}

}  // namespace memplan
