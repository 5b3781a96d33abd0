#include "order/cuts.hpp"

#include <algorithm>

namespace memplan {

Cuts::Cuts(const ContentsModel& model, const Deadline& deadline)
    : model_(model), flow_(deadline), side_(at(model.op_count())), node_of_(side_.size()) {}

std::optional<Cut> Cuts::before(Index op, std::int64_t& work_left) { return before(op, {}, {}, work_left); }

std::optional<Cut> Cuts::before(Index op, std::span<const Index> in, std::span<const Index> out,
                                std::int64_t& work_left) {
  const std::int64_t begin = flow_.work();
  std::fill(side_.begin(), side_.end(), Side::open);
  flow_.count(side_.size());
  exists_ = true;
  for (const Index k : model_.waits[at(op)]) spread(k, Side::in);
  for (const Index k : in) spread(k, Side::in);
  spread(op, Side::after);
  for (const Index k : out)
    if (side_[at(k)] != Side::after) spread(k, Side::out);
  build();
  const bool found = flow_.grow(work_left - (flow_.work() - begin));
  work_left -= flow_.work() - begin;
  if (!found || !exists_) return std::nullopt;
  Cut cut{proven(), {}};
  for (std::size_t k = 0; k < side_.size(); ++k)
    cut.in_set.push_back(side_[k] == Side::in || (side_[k] == Side::open && flow_.is_before_cut(node_of_[k])));
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
    flow_.count(more.size() + 1);
    queue_.insert(queue_.end(), more.begin(), more.end());
  }
}

void Cuts::build() {
  flow_.clear();
  always_.clear();
  uses_.clear();
  waits_.clear();
  open_.clear();
  always_alive_ = 0;
  for (Index k = 0; k < model_.op_count(); ++k)
    if (side_[at(k)] == Side::open) {
      open_.push_back(k);
      node_of_[at(k)] = flow_.node();
    }
  for (Index i = 0; i < static_cast<Index>(model_.items.size()); ++i) build(i);
  for (const Index k : open_)
    for (const Index before : model_.waits[at(k)])
      if (side_[at(before)] == Side::open)
        waits_.push_back({k, before, flow_.add(node_of_[at(k)], node_of_[at(before)], MaxFlow::kInfinite)});
  flow_.count(model_.items.size() + flow_.edges());
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
    always_alive_ += item.bytes;
    return;
  }
  const bool to_sink = item.kept || last != kNone;
  const auto is_open = [&](Index user) { return side_[at(user)] == Side::open; };
  if (!to_sink && std::none_of(item.users.begin(), item.users.end(), is_open)) return;
  const Index here = flow_.node();
  flow_.add(is_made ? MaxFlow::kSource : node_of_[at(item.maker)], here, item.bytes);
  if (to_sink) uses_.push_back({i, item.kept ? kNone : last, flow_.add(here, MaxFlow::kSink, MaxFlow::kInfinite)});
  if (to_sink) return;  // nothing is gained by a longer way
  for (const Index user : item.users)
    if (is_open(user)) uses_.push_back({i, user, flow_.add(here, node_of_[at(user)], MaxFlow::kInfinite)});
}

CutFlow Cuts::flow() const {
  CutFlow flow{proven(), always_, {}};
  for (const Open& use : uses_)
    if (const Bytes bytes = flow_.flow_on(use.edge); bytes > 0) flow.held.push_back({use.item, use.user, bytes});
  for (const Open& wait : waits_)
    if (const Bytes bytes = flow_.flow_on(wait.edge); bytes > 0) flow.passed.push_back({wait.item, wait.user, bytes});
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

}  // namespace memplan
