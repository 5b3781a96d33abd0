#include "order/cuts.hpp"

#include <algorithm>

namespace memplan {

namespace {

constexpr Bytes kInfinite = kMaxBytes / 4;
constexpr Index kSource = 0, kSink = 1;

}  // namespace

Cuts::Cuts(const ContentsModel& model, const Deadline& deadline)
    : model_(model), deadline_(deadline), side_(at(model.op_count())), node_of_(side_.size()) {}

std::optional<Cut> Cuts::before(Index op, std::int64_t& work_left) { return before(op, {}, {}, work_left); }

std::optional<Cut> Cuts::before(Index op, std::span<const Index> in, std::span<const Index> out,
                                std::int64_t& work_left) {
  const std::int64_t begin = work_;
  const auto is_spent = [&] { return work_ - begin >= work_left; };
  std::fill(side_.begin(), side_.end(), Side::open);
  count(side_.size());
  exists_ = true;
  for (const Index k : model_.waits[at(op)]) spread(k, Side::in);
  for (const Index k : in) spread(k, Side::in);
  spread(op, Side::after);
  for (const Index k : out)
    if (side_[at(k)] != Side::after) spread(k, Side::out);
  build();
  bool found = false;
  while (!is_spent() && !(found = !find_levels())) {
    next_ = first_;
    while (!is_spent()) {
      const Bytes pushed = push();
      if (pushed == 0) break;
      proven_ += pushed;
    }
  }
  work_left -= work_ - begin;
  if (!found || !exists_) return std::nullopt;
  Cut cut{proven_, {}};
  for (std::size_t k = 0; k < side_.size(); ++k)
    cut.in_set.push_back(side_[k] == Side::in || (side_[k] == Side::open && level_[at(node_of_[k])] != kNone));
  return cut;
}

// With an op, what it waits for is in S; what waits for it is out.
void Cuts::spread(Index op, Side side) {
  queue_.assign(1, op);
  while (!queue_.empty()) {
    const Index k = queue_.back();
    queue_.pop_back();
    if (side_[at(k)] == side || (side == Side::out && side_[at(k)] == Side::after)) continue;
    if (side_[at(k)] != Side::open) exists_ = false;
    side_[at(k)] = side;
    const std::vector<Index>& more = side == Side::in ? model_.waits[at(k)] : model_.followers[at(k)];
    count(more.size() + 1);
    queue_.insert(queue_.end(), more.begin(), more.end());
  }
}

void Cuts::build() {
  edges_.clear();
  first_.clear();
  always_.clear();
  uses_.clear();
  waits_.clear();
  open_.clear();
  proven_ = 0;
  node();
  node();
  for (Index k = 0; k < model_.op_count(); ++k)
    if (side_[at(k)] == Side::open) {
      open_.push_back(k);
      node_of_[at(k)] = node();
    }
  for (Index i = 0; i < static_cast<Index>(model_.items.size()); ++i) build(i);
  for (const Index k : open_)
    for (const Index before : model_.waits[at(k)])
      if (side_[at(before)] == Side::open)
        waits_.push_back({k, before, add(node_of_[at(k)], node_of_[at(before)], kInfinite)});
  count(model_.items.size() + edges_.size());
  level_.resize(first_.size());
}

void Cuts::build(Index i) {
  const Content& item = model_.items[at(i)];
  const bool is_made = item.maker == kNone || side_[at(item.maker)] == Side::in;
  if (!is_made && is_out(item.maker)) return;
  Index last = kNone;  // who uses it after any S; best is one that needs the op
  for (const Index user : item.users)
    if (is_out(user) && (last == kNone || side_[at(user)] == Side::after)) last = user;
  if (is_made && (item.kept || last != kNone)) {
    always_.push_back({i, item.kept ? kNone : last, item.bytes});
    proven_ += item.bytes;
    return;
  }
  const bool to_sink = item.kept || last != kNone;
  const auto is_open = [&](Index user) { return side_[at(user)] == Side::open; };
  if (!to_sink && std::none_of(item.users.begin(), item.users.end(), is_open)) return;
  const Index here = node();
  add(is_made ? kSource : node_of_[at(item.maker)], here, item.bytes);
  if (to_sink) uses_.push_back({i, item.kept ? kNone : last, add(here, kSink, kInfinite)});
  if (to_sink) return;  // nothing is gained by a longer way
  for (const Index user : item.users)
    if (is_open(user)) uses_.push_back({i, user, add(here, node_of_[at(user)], kInfinite)});
}

CutFlow Cuts::flow() const {
  CutFlow flow{proven_, always_, {}};
  for (const Open& use : uses_)
    if (const Bytes bytes = edges_[at(use.edge ^ 1)].capacity; bytes > 0)
      flow.held.push_back({use.item, use.user, bytes});
  for (const Open& wait : waits_)
    if (const Bytes bytes = edges_[at(wait.edge ^ 1)].capacity; bytes > 0)
      flow.passed.push_back({wait.item, wait.user, bytes});
  return flow;
}

std::vector<Bytes> Cuts::gives() const {
  std::vector<Bytes> gives(side_.size(), 0);
  const CutFlow flow = this->flow();
  for (const auto& [i, user, bytes] : flow.held) {
    const Index maker = model_.items[at(i)].maker;
    if (maker != kNone) gives[at(maker)] += bytes;
    if (user != kNone) gives[at(user)] -= bytes;
  }
  for (const auto& [op, before, bytes] : flow.passed) {
    gives[at(op)] += bytes;
    gives[at(before)] -= bytes;
  }
  return gives;
}

Index Cuts::node() {
  first_.push_back(kNone);
  return static_cast<Index>(first_.size()) - 1;
}

Index Cuts::add(Index from, Index to, Bytes capacity) {
  const Index edge = static_cast<Index>(edges_.size());
  edges_.push_back({to, first_[at(from)], capacity});
  first_[at(from)] = edge;
  edges_.push_back({from, first_[at(to)], 0});
  first_[at(to)] = edge + 1;
  return edge;
}

void Cuts::count(std::size_t edges) {
  work_ += static_cast<std::int64_t>(edges);
  deadline_.tick(edges);
}

bool Cuts::find_levels() {
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
Bytes Cuts::push() {
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
  Bytes limit = kInfinite;
  for (const Index e : path_) limit = std::min(limit, edges_[at(e)].capacity);
  for (const Index e : path_) {
    edges_[at(e)].capacity -= limit;
    edges_[at(e ^ 1)].capacity += limit;
  }
  return limit;
}

}  // namespace memplan
