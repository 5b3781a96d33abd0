#include "order/cuts.hpp"

#include <algorithm>

namespace memplan {

namespace {

constexpr Bytes kInfinite = kMaxBytes / 4;

}  // namespace

Cuts::Cuts(const ContentsModel& model, const Deadline& deadline)
    : model_(model),
      deadline_(deadline),
      source_(model.op_count() + static_cast<Index>(model.items.size())),
      sink_(source_ + 1),
      edges_of_(at(sink_) + 1),
      level_(edges_of_.size()),
      next_(edges_of_.size()) {
  for (Index op = 0; op < model.op_count(); ++op) {
    to_op_.push_back(static_cast<Index>(edges_.size()));
    add(source_, op, 0);
    from_op_.push_back(static_cast<Index>(edges_.size()));
    add(op, sink_, 0);
    for (const Index before : model.waits[at(op)]) add(op, before, kInfinite);
  }
  for (Index i = 0; i < static_cast<Index>(model.items.size()); ++i) {
    const Content& item = model.items[at(i)];
    const Index node = model.op_count() + i;
    add(item.maker == kNone ? source_ : item.maker, node, item.bytes);
    for (const Index user : item.users) add(node, user, kInfinite);
    if (item.kept) add(node, sink_, kInfinite);
  }
  for (const Edge& edge : edges_) fresh_.push_back(edge.capacity);
}

void Cuts::add(Index from, Index to, Bytes capacity) {
  edges_of_[at(from)].push_back(static_cast<Index>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[at(to)].push_back(static_cast<Index>(edges_.size()));
  edges_.push_back({from, 0});
}

std::optional<Cut> Cuts::before(Index op, std::int64_t& work_left) {
  const std::int64_t begin = work_;
  const auto is_spent = [&] { return work_ - begin >= work_left; };
  count(edges_.size());
  for (std::size_t e = 0; e < edges_.size(); ++e) edges_[e].capacity = fresh_[e];
  for (const Index before : model_.waits[at(op)]) edges_[at(to_op_[at(before)])].capacity = kInfinite;
  edges_[at(from_op_[at(op)])].capacity = kInfinite;
  Cut cut;
  bool found = false;
  while (!is_spent() && !(found = !find_levels())) {
    std::fill(next_.begin(), next_.end(), 0);
    while (!is_spent()) {
      const Bytes pushed = push(source_, kInfinite);
      if (pushed == 0) break;
      cut.alive += pushed;
    }
  }
  work_left -= work_ - begin;
  if (!found) return std::nullopt;
  for (Index k = 0; k < model_.op_count(); ++k) cut.in_set.push_back(level_[at(k)] != kNone);
  return cut;
}

void Cuts::count(std::size_t edges) {
  work_ += static_cast<std::int64_t>(edges);
  deadline_.tick(edges);
}

bool Cuts::find_levels() {
  std::fill(level_.begin(), level_.end(), kNone);
  std::vector<Index> queue = {source_};
  level_[at(source_)] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const Index node = queue[head];
    count(edges_of_[at(node)].size());
    for (const Index e : edges_of_[at(node)]) {
      const auto& [to, capacity] = edges_[at(e)];
      if (capacity == 0 || level_[at(to)] != kNone) continue;
      level_[at(to)] = level_[at(node)] + 1;
      queue.push_back(to);
    }
  }
  return level_[at(sink_)] != kNone;
}

// Along one path of the levels; without recursion, as paths may be as long as the graph.
Bytes Cuts::push(Index from, Bytes limit) {
  std::vector<Index> path;  // edges
  Index node = from;
  while (node != sink_) {
    const std::vector<Index>& edges = edges_of_[at(node)];
    std::size_t& k = next_[at(node)];
    const std::size_t first = k;
    while (k < edges.size()) {
      const auto& [to, capacity] = edges_[at(edges[k])];
      if (capacity > 0 && level_[at(to)] == level_[at(node)] + 1) break;
      ++k;
    }
    count(k - first + 1);
    if (k < edges.size()) {
      path.push_back(edges[k]);
      node = edges_[at(edges[k])].to;
    } else {
      if (path.empty()) return 0;
      node = edges_[at(path.back() ^ 1)].to;
      path.pop_back();
      ++next_[at(node)];
    }
  }
  for (const Index e : path) limit = std::min(limit, edges_[at(e)].capacity);
  for (const Index e : path) {
    edges_[at(e)].capacity -= limit;
    edges_[at(e ^ 1)].capacity += limit;
  }
  return limit;
}

}  // namespace memplan
