#include "order/lists.hpp"

#include <algorithm>
#include <array>
#include <queue>

namespace memplan {

namespace {

constexpr ListRule kListRules[] = {
    {"growth", ListKey::growth, false},          {"release", ListKey::release, false},
    {"newest", ListKey::newest, false},          {"oldest", ListKey::oldest, false},
    {"growth_backwards", ListKey::growth, true}, {"release_backwards", ListKey::release, true},
    {"newest_backwards", ListKey::newest, true}, {"oldest_backwards", ListKey::oldest, true},
};

// What of two ops comes first is the lower key.
using Key = std::array<std::int64_t, 3>;

// Ops that may come next, by keys that change: the newest key of an op counts.
class Ready {
 public:
  explicit Ready(std::size_t ops) : key_(ops), is_ready_(ops, false) {}

  void put(Index op, const Key& key) {
    is_ready_[at(op)] = true;
    key_[at(op)] = key;
    heap_.emplace(key, op);
  }
  bool contains(Index op) const { return is_ready_[at(op)]; }
  Index pop() {
    for (;;) {
      const auto [key, op] = heap_.top();
      heap_.pop();
      if (!is_ready_[at(op)] || key_[at(op)] != key) continue;
      is_ready_[at(op)] = false;
      return op;
    }
  }

 private:
  using Entry = std::pair<Key, Index>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
  std::vector<Key> key_;
  std::vector<bool> is_ready_;
};

Key key_of(ListKey rule, Index op, Bytes growth, std::int64_t age, std::int64_t given) {
  switch (rule) {
    case ListKey::growth: return {growth, given, op};
    case ListKey::release: return {growth <= 0 ? growth : 1, -age, given};
    case ListKey::newest: return {-age, growth, given};
    case ListKey::oldest: return {age, given, op};
  }
  return {};
}

// What each op adds to what is alive if it runs next, kept as others run. An item that is about to die is looked for
// once, so all of an order takes as much as its edges.
class Growths {
 public:
  explicit Growths(const ContentsModel& model) : model_(model), state_(model) {
    for (Index op = 0; op < model.op_count(); ++op) growth_.push_back(state_.growth(op));
  }
  Bytes of(Index op) const { return growth_[at(op)]; }

  // Calls f(op) for each op that frees more once this one has run, perhaps for some that have run.
  template <class F>
  void run(Index op, F&& f) {
    state_.run(op);
    for (const Index i : model_.uses[at(op)]) {
      if (!state_.is_last_use(i)) continue;
      for (const Index user : model_.items[at(i)].users) {
        growth_[at(user)] -= model_.items[at(i)].bytes;
        f(user);
      }
    }
  }

 private:
  const ContentsModel& model_;
  OrderState state_;
  std::vector<Bytes> growth_;  // per op; of those that have run, nothing
};

// The same from the end: of the bytes alive before an op, compared with those after it, where what is behind has run.
class GrowthsBackwards {
 public:
  explicit GrowthsBackwards(const ContentsModel& model) : model_(model), alive_(model.items.size(), false) {
    growth_.assign(at(model.op_count()), 0);
    for (std::size_t i = 0; i < alive_.size(); ++i) {
      const Content& item = model.items[i];
      for (const Index user : item.users) growth_[at(user)] += item.bytes;
      if (item.kept) keep_alive(static_cast<Index>(i));
    }
  }
  Bytes of(Index op) const { return growth_[at(op)]; }

  template <class F>
  void run(Index op, F&& f) {
    for (const Index i : model_.uses[at(op)]) {
      if (alive_[at(i)]) continue;
      keep_alive(i);
      for (const Index user : model_.items[at(i)].users) f(user);
    }
  }

 private:
  void keep_alive(Index i) {
    const Content& item = model_.items[at(i)];
    alive_[at(i)] = true;
    for (const Index user : item.users) growth_[at(user)] -= item.bytes;
    if (item.maker != kNone) growth_[at(item.maker)] -= item.bytes;
  }

  const ContentsModel& model_;
  std::vector<bool> alive_;    // per item: kept, or an op that is behind uses it
  std::vector<Bytes> growth_;  // per op
};

std::vector<Index> forwards(const ContentsModel& model, ListKey rule, const Deadline& deadline) {
  const auto count = at(model.op_count());
  Growths growths(model);
  Ready ready(count);
  std::vector<std::size_t> waiting(count);
  std::vector<std::int64_t> age(count, 0);  // when it became ready
  std::vector<Index> order;
  const auto put = [&](Index op) { ready.put(op, key_of(rule, op, growths.of(op), age[at(op)], op)); };
  for (Index op = 0; op < model.op_count(); ++op) {
    waiting[at(op)] = model.waits[at(op)].size();
    if (waiting[at(op)] == 0) put(op);
  }
  while (order.size() < count) {
    const Index op = ready.pop();
    order.push_back(op);
    const auto now = static_cast<std::int64_t>(order.size());
    growths.run(op, [&](Index user) {
      if (ready.contains(user)) put(user);
    });
    for (const Index next : model.followers[at(op)]) {
      if (--waiting[at(next)] > 0) continue;
      age[at(next)] = now;
      put(next);
    }
    deadline.tick(1 + model.uses[at(op)].size() + model.followers[at(op)].size());
  }
  return order;
}

std::vector<Index> backwards(const ContentsModel& model, ListKey rule, const Deadline& deadline) {
  const auto count = at(model.op_count());
  GrowthsBackwards growths(model);
  Ready ready(count);
  std::vector<std::size_t> waiting(count);
  std::vector<std::int64_t> age(count, 0);
  std::vector<Index> order;
  const auto put = [&](Index op) { ready.put(op, key_of(rule, op, growths.of(op), age[at(op)], -op)); };
  for (Index op = model.op_count(); op-- > 0;) {
    waiting[at(op)] = model.followers[at(op)].size();
    if (waiting[at(op)] == 0) put(op);
  }
  while (order.size() < count) {
    const Index op = ready.pop();
    order.push_back(op);
    const auto now = static_cast<std::int64_t>(order.size());
    growths.run(op, [&](Index user) {
      if (ready.contains(user)) put(user);
    });
    for (const Index next : model.waits[at(op)]) {
      if (--waiting[at(next)] > 0) continue;
      age[at(next)] = now;
      put(next);
    }
    deadline.tick(1 + model.uses[at(op)].size() + model.waits[at(op)].size());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

std::span<const ListRule> list_rules() { return kListRules; }

std::vector<Index> list_order(const ContentsModel& model, const ListRule& rule, const Deadline& deadline) {
  return rule.backwards ? backwards(model, rule.key, deadline) : forwards(model, rule.key, deadline);
}

}  // namespace memplan
