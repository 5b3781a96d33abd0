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

std::vector<Index> forwards(const ContentsModel& model, ListKey rule) {
  const auto count = at(model.op_count());
  OrderState state(model);
  Ready ready(count);
  std::vector<std::size_t> waiting(count);
  std::vector<std::int64_t> age(count, 0);  // when it became ready
  std::vector<Index> order;
  const auto put = [&](Index op) { ready.put(op, key_of(rule, op, state.growth(op), age[at(op)], op)); };
  for (Index op = 0; op < model.op_count(); ++op) {
    waiting[at(op)] = model.waits[at(op)].size();
    if (waiting[at(op)] == 0) put(op);
  }
  while (order.size() < count) {
    const Index op = ready.pop();
    state.run(op);
    order.push_back(op);
    const auto now = static_cast<std::int64_t>(order.size());
    for (const Index next : model.followers[at(op)]) {
      if (--waiting[at(next)] > 0) continue;
      age[at(next)] = now;
      put(next);
    }
    for (const Index i : model.uses[at(op)]) {  // the last to use it frees more now
      if (!state.is_last_use(i)) continue;
      for (const Index user : model.items[at(i)].users)
        if (ready.contains(user)) put(user);
    }
  }
  return order;
}

// The growth of what is alive, looked at from the end: without op, whose followers are all behind.
class Backwards {
 public:
  explicit Backwards(const ContentsModel& model) : model_(model), behind_(model.items.size(), 0) {}

  bool is_alive(Index i) const { return model_.items[at(i)].kept || behind_[at(i)] > 0; }

  // Of the bytes alive before the op, compared with those after it.
  Bytes growth(Index op) const {
    Bytes growth = 0;
    for (const Index i : model_.makes[at(op)])
      if (is_alive(i)) growth -= model_.items[at(i)].bytes;
    for (const Index i : model_.uses[at(op)])
      if (!is_alive(i)) growth += model_.items[at(i)].bytes;
    return growth;
  }
  void put_behind(Index op) {
    for (const Index i : model_.uses[at(op)]) ++behind_[at(i)];
  }
  Index behind(Index i) const { return behind_[at(i)]; }

 private:
  const ContentsModel& model_;
  std::vector<Index> behind_;  // per item, users that come later
};

std::vector<Index> backwards(const ContentsModel& model, ListKey rule) {
  const auto count = at(model.op_count());
  Backwards state(model);
  Ready ready(count);
  std::vector<std::size_t> waiting(count);
  std::vector<std::int64_t> age(count, 0);
  std::vector<Index> order;
  const auto put = [&](Index op) { ready.put(op, key_of(rule, op, state.growth(op), age[at(op)], -op)); };
  for (Index op = model.op_count(); op-- > 0;) {
    waiting[at(op)] = model.followers[at(op)].size();
    if (waiting[at(op)] == 0) put(op);
  }
  while (order.size() < count) {
    const Index op = ready.pop();
    state.put_behind(op);
    order.push_back(op);
    const auto now = static_cast<std::int64_t>(order.size());
    for (const Index next : model.waits[at(op)]) {
      if (--waiting[at(next)] > 0) continue;
      age[at(next)] = now;
      put(next);
    }
    for (const Index i : model.uses[at(op)]) {  // it is alive now, whoever else uses it
      if (state.behind(i) != 1) continue;
      for (const Index user : model.items[at(i)].users)
        if (ready.contains(user)) put(user);
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

std::span<const ListRule> list_rules() { return kListRules; }

std::vector<Index> list_order(const ContentsModel& model, const ListRule& rule) {
  return rule.backwards ? backwards(model, rule.key) : forwards(model, rule.key);
}

}  // namespace memplan
