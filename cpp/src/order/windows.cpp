#include "order/windows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <unordered_map>

namespace memplan {

namespace {

// A set of ops of a window.
struct OpSet {
  std::array<std::uint64_t, kMostInWindow / 64> words = {};

  bool contains(std::size_t op) const { return (words[op / 64] >> (op % 64)) & 1; }
  void insert(std::size_t op) { words[op / 64] |= std::uint64_t{1} << (op % 64); }
  bool operator==(const OpSet&) const = default;

  // Whether all of it is in another set.
  bool in(const OpSet& other) const {
    for (std::size_t w = 0; w < words.size(); ++w)
      if (words[w] & ~other.words[w]) return false;
    return true;
  }
  // Whether all of it is in another set, but for one op.
  bool in_but_for(const OpSet& other, std::size_t op) const {
    OpSet with = other;
    with.insert(op);
    return in(with);
  }
};

struct HashOfSet {
  std::size_t operator()(const OpSet& set) const {
    std::uint64_t hash = 0;
    for (const std::uint64_t word : set.words) hash = (hash ^ word) * 0x9E3779B97F4A7C15ull + (hash >> 29);
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
};

// An item that the window makes or uses up.
struct Local {
  Bytes bytes;
  OpSet users;      // in the window
  bool used_later;  // or kept
};

struct LocalOver {
  Bytes bytes;
  Index output, input;
  std::vector<std::size_t> items;
};

class WindowSearch {
 public:
  WindowSearch(const ContentsModel& model, const OrderState& state, std::span<const Index> window)
      : model_(model),
        window_(window),
        waits_(window.size()),
        uses_(window.size()),
        makes_(window.size(), 0),
        overs_(window.size()) {
    std::unordered_map<Index, std::size_t> position;
    for (std::size_t k = 0; k < window.size(); ++k) position[window[k]] = k;
    for (std::size_t k = 0; k < window.size(); ++k) {
      for (const Index before : model.waits[at(window[k])])
        if (const auto found = position.find(before); found != position.end()) waits_[k].insert(found->second);
    }
    std::unordered_map<Index, std::size_t> local;  // item -> its number here
    const auto number_of = [&](Index i) {
      const auto [found, is_new] = local.try_emplace(i, items_.size());
      if (!is_new) return found->second;
      const Content& item = model.items[at(i)];
      Local here{item.bytes, {}, item.kept};
      Index inside = 0;
      for (const Index user : item.users)
        if (const auto at_user = position.find(user); at_user != position.end())
          here.users.insert(at_user->second), ++inside;
      here.used_later = here.used_later || inside < state.uses_left(i);
      items_.push_back(here);
      return items_.size() - 1;
    };
    for (std::size_t k = 0; k < window.size(); ++k) {
      for (const Index i : model.makes[at(window[k])]) {
        const Content& item = model.items[at(i)];
        if (item.kept || !item.users.empty()) makes_[k] += item.bytes;
      }
      for (const Index i : model.uses[at(window[k])]) uses_[k].push_back(number_of(i));
      for (const Over& over : model.overs[at(window[k])]) {
        LocalOver here{over.bytes, over.output, over.input, {}};
        for (const Index i : over.items) here.items.push_back(number_of(i));
        overs_[k].push_back(std::move(here));
      }
    }
    alive_ = state.alive();
  }

  std::optional<std::vector<Index>> run(Bytes limit, std::size_t states, const Deadline& deadline, std::int64_t& work) {
    nodes_.push_back({{}, alive_, 0, 0, kNone, 0});
    push(0);
    while (!queue_.empty() && nodes_.size() < states) {
      const Index current = std::get<3>(queue_.top());
      queue_.pop();
      const Node node = nodes_[at(current)];
      if (best_.at(node.set) < node.needed) continue;
      if (node.count == window_.size()) return path(current);
      work += static_cast<std::int64_t>(window_.size());
      deadline.tick(window_.size());
      expand(node, current, limit);
    }
    return std::nullopt;
  }

 private:
  struct Node {
    OpSet set;
    Bytes alive;
    Bytes needed;  // at most, on the way
    std::size_t op;
    Index before;
    std::size_t count;
  };

  void expand(const Node& node, Index current, Bytes limit) {
    std::vector<std::size_t> next;
    for (std::size_t k = 0; k < window_.size(); ++k) {
      if (node.set.contains(k) || !waits_[k].in(node.set)) continue;
      const Bytes needed = need(node, k);
      if (needed >= limit) continue;
      if (growth(node, k) <= 0 && needed <= node.needed) {
        next.assign(1, k);
        break;
      }
      next.push_back(k);
    }
    for (const std::size_t k : next) {
      Node child{node.set,      node.alive + growth(node, k), std::max(node.needed, need(node, k)), k, current,
                 node.count + 1};
      child.set.insert(k);
      const auto [found, is_new] = best_.try_emplace(child.set, child.needed);
      if (!is_new && found->second <= child.needed) continue;
      found->second = child.needed;
      nodes_.push_back(child);
      push(static_cast<Index>(nodes_.size()) - 1);
    }
  }

  bool is_last_use(const Node& node, std::size_t item, std::size_t op) const {
    const Local& here = items_[item];
    return !here.used_later && here.users.in_but_for(node.set, op);
  }

  Bytes growth(const Node& node, std::size_t op) const {
    Bytes growth = makes_[op];
    for (const std::size_t i : uses_[op])
      if (is_last_use(node, i, op)) growth -= items_[i].bytes;
    return growth;
  }

  Bytes need(const Node& node, std::size_t op) const {
    Bytes need = node.alive + model_.making[at(window_[op])];
    const std::vector<LocalOver>& overs = overs_[op];
    for (std::size_t k = 0; k < overs.size(); ++k) {
      const auto taken = [&](const LocalOver& other) {
        return other.output == overs[k].output || other.input == overs[k].input;
      };
      if (std::any_of(overs.begin(), overs.begin() + static_cast<std::ptrdiff_t>(k), taken)) continue;
      if (std::all_of(overs[k].items.begin(), overs[k].items.end(),
                      [&](std::size_t i) { return is_last_use(node, i, op); }))
        need -= overs[k].bytes;
    }
    return need;
  }

  void push(Index number) {
    const Node& node = nodes_[at(number)];
    best_.try_emplace(node.set, node.needed);
    queue_.emplace(node.needed, -static_cast<std::int64_t>(node.count), node.alive, number);
  }

  std::vector<Index> path(Index end) const {
    std::vector<Index> order;
    for (Index n = end; nodes_[at(n)].before != kNone; n = nodes_[at(n)].before)
      order.push_back(window_[nodes_[at(n)].op]);
    std::reverse(order.begin(), order.end());
    return order;
  }

  using Entry = std::tuple<Bytes, std::int64_t, Bytes, Index>;  // needed, ops left, alive, node

  const ContentsModel& model_;
  std::span<const Index> window_;
  std::vector<OpSet> waits_;                    // per op of the window, those of the window that it waits for
  std::vector<std::vector<std::size_t>> uses_;  // per op
  std::vector<Bytes> makes_;                    // per op, bytes that are alive behind it
  std::vector<std::vector<LocalOver>> overs_;   // per op
  std::vector<Local> items_;
  Bytes alive_ = 0;  // before the window
  std::vector<Node> nodes_;
  std::unordered_map<OpSet, Bytes, HashOfSet> best_;  // the least that a way to the set has needed
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

std::optional<std::vector<Index>> window_order(const ContentsModel& model, const OrderState& state,
                                               std::span<const Index> window, Bytes limit, std::size_t states,
                                               const Deadline& deadline, std::int64_t& work) {
  return WindowSearch(model, state, window).run(limit, states, deadline, work);
}

}  // namespace memplan
