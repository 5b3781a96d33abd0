// lpmf: least peak memory first. Of the ops that may come next and need no more than the highest peak so far, the one
// that adds the fewest bytes to what is alive; if all need more, the one that makes the fewest bytes. Inductor's
// topological_sort_lpmf, which names as its source "Buffer memory optimization for video codec application modeled in
// Simulink" (DAC 2006).
//
// torch looks at all that is ready for each op. Here the ops are leaves of a tree, by the bytes that they make, so that
// the ones that fit are a prefix of it: O(log n) for each op and each content that is about to die.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "order/rules.hpp"

namespace memplan {

namespace {

// Of the ops that may come next, the one that adds least, among those that make few bytes.
class LpmfReady {
 public:
  explicit LpmfReady(std::vector<Bytes> made) : made_(std::move(made)), leaf_(made_.size()), by_bytes_(made_.size()) {
    std::iota(by_bytes_.begin(), by_bytes_.end(), Index{0});
    std::sort(by_bytes_.begin(), by_bytes_.end(),
              [&](Index a, Index b) { return std::tuple(made_[at(a)], a) < std::tuple(made_[at(b)], b); });
    for (std::size_t k = 0; k < by_bytes_.size(); ++k) leaf_[at(by_bytes_[k])] = k;
    size_ = std::bit_ceil(std::max<std::size_t>(made_.size(), 1));
    nodes_.assign(2 * size_, kNothing);
  }

  void put(Index op, Bytes growth) { set(leaf_[at(op)], {growth, op}); }
  void remove(Index op) { set(leaf_[at(op)], kNothing); }
  bool contains(Index op) const { return nodes_[size_ + leaf_[at(op)]] != kNothing; }

  // Something is ready.
  Index best(Bytes gap) const {
    const Entry fitting = least(0, leaves_up_to(gap));
    if (fitting != kNothing) return fitting.second;
    std::size_t first = 1;  // the leftmost leaf that is ready
    while (first < size_) first = nodes_[2 * first] != kNothing ? 2 * first : 2 * first + 1;
    first -= size_;
    return least(first, leaves_up_to(made_[at(by_bytes_[first])])).second;
  }

 private:
  using Entry = std::pair<Bytes, Index>;  // growth, op
  static constexpr Entry kNothing = {std::numeric_limits<Bytes>::max(), kNone};

  std::size_t leaves_up_to(Bytes bytes) const {
    const auto end = std::upper_bound(by_bytes_.begin(), by_bytes_.end(), bytes,
                                      [&](Bytes limit, Index op) { return limit < made_[at(op)]; });
    return static_cast<std::size_t>(end - by_bytes_.begin());
  }
  Entry least(std::size_t begin, std::size_t end) const {  // of the leaves [begin, end)
    Entry found = kNothing;
    for (begin += size_, end += size_; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) found = std::min(found, nodes_[begin++]);
      if (end % 2 == 1) found = std::min(found, nodes_[--end]);
    }
    return found;
  }
  void set(std::size_t leaf, Entry entry) {
    std::size_t node = size_ + leaf;
    nodes_[node] = entry;
    while (node /= 2) nodes_[node] = std::min(nodes_[2 * node], nodes_[2 * node + 1]);
  }

  std::vector<Bytes> made_;        // per op
  std::vector<std::size_t> leaf_;  // per op
  std::vector<Index> by_bytes_;    // ops
  std::size_t size_ = 1;           // leaves
  std::vector<Entry> nodes_;       // the least of each subtree
};

// Bytes that no op uses but the one that makes them, its workspace with them.
Bytes dead_at_once(const ContentsModel& model, Index op) {
  Bytes bytes = model.making[at(op)];
  for (const Index i : model.makes[at(op)])
    if (model.items[at(i)].kept || !model.items[at(i)].users.empty()) bytes -= model.items[at(i)].bytes;
  return bytes;
}

}  // namespace

FoundOrders lpmf_order(const OrderTask& task) {
  const ContentsModel& model = task.model;
  const auto count = at(model.op_count());
  std::vector<Bytes> frees(count, 0);  // when it runs next
  std::vector<std::size_t> waiting(count), left;
  Bytes alive = 0, kept = 0;
  for (const Content& item : model.items) {
    left.push_back(item.users.size() + (item.kept ? 1 : 0));
    if (item.maker == kNone) alive += item.bytes;
    if (item.kept) kept += item.bytes;
    if (left.back() == 1 && !item.kept) frees[at(item.users.front())] += item.bytes;
  }
  Bytes peak = std::max(alive, kept);
  LpmfReady ready(model.making);
  const auto put = [&](Index op) { ready.put(op, model.making[at(op)] - frees[at(op)]); };
  for (Index op = 0; op < model.op_count(); ++op) {
    frees[at(op)] += dead_at_once(model, op);
    if ((waiting[at(op)] = model.waits[at(op)].size()) == 0) put(op);
  }
  std::vector<Index> order;
  while (order.size() < count) {
    const Index op = ready.best(peak - alive);
    ready.remove(op);
    order.push_back(op);
    task.deadline.tick(1 + model.uses[at(op)].size() + model.followers[at(op)].size());
    alive += model.making[at(op)];
    peak = std::max(peak, alive);
    alive -= frees[at(op)];
    for (const Index next : model.followers[at(op)])
      if (--waiting[at(next)] == 0) put(next);
    for (const Index i : model.uses[at(op)]) {
      if (--left[at(i)] != 1) continue;
      for (const Index user : model.items[at(i)].users) {
        frees[at(user)] += model.items[at(i)].bytes;  // of those that have run, too: nobody looks at it again
        if (ready.contains(user)) put(user);
      }
    }
  }
  return {{{"lpmf", std::move(order)}}};
}

}  // namespace memplan
