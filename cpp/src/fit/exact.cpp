#include "fit/exact.hpp"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <unordered_map>

namespace memplan {

namespace {

constexpr std::size_t kMostItems = 24;
constexpr Index kMostOps = 64;

using Items = std::uint32_t;  // a set

// A stage, the items alive, and those that were fetched already.
struct ExactState {
  std::uint32_t stage;
  Items alive;
  Items fetched;

  std::uint64_t key() const { return (std::uint64_t{stage} << kMostItems | fetched) << kMostItems | alive; }
  static ExactState of(std::uint64_t key) {
    constexpr std::uint64_t mask = (std::uint64_t{1} << kMostItems) - 1;
    return {static_cast<std::uint32_t>(key >> 2 * kMostItems), static_cast<Items>(key & mask),
            static_cast<Items>(key >> kMostItems & mask)};
  }
};

class StateSearch {
 public:
  StateSearch(const FitModel& model, Bytes capacity) : model_(model), capacity_(capacity) {
    const std::vector<Content>& items = model.contents.items;
    kept_.assign(at(model.op_count() + 1), 0);
    for (std::size_t i = 0; i < items.size(); ++i) {
      for (Index stage = 0; stage <= model.op_count(); ++stage)
        if (model.is_kept(static_cast<Index>(i), stage)) kept_[at(stage)] |= Items{1} << i;
      if (items[i].maker == kNone && (items[i].kept || !items[i].users.empty())) given_ |= Items{1} << i;
    }
  }

  std::optional<Exact> run(std::size_t most) {
    push({0, given_, 0}, 0, 0, {});
    while (!heap_.empty()) {
      const auto [cost, key] = heap_.top();
      heap_.pop();
      Known& known = known_.at(key);
      if (known.done || cost > known.cost) continue;
      known.done = true;
      if (known_.size() > most) return std::nullopt;
      const ExactState state = ExactState::of(key);
      if (static_cast<Index>(state.stage) == model_.op_count()) return result(state, cost);
      expand(state, cost);
    }
    return Exact{};
  }

 private:
  struct Known {
    double cost;
    std::uint64_t from;
    Rerun rerun;  // of a unit; none of kNone
    bool done;
  };

  static Items set_of(const std::vector<Index>& items) {
    Items set = 0;
    for (const Index i : items) set |= Items{1} << i;
    return set;
  }

  Bytes bytes_of(Items set) const {
    Bytes bytes = 0;
    for (std::size_t i = 0; set >> i != 0; ++i)
      if ((set >> i & 1) != 0) bytes += model_.contents.items[i].bytes;
    return bytes;
  }

  void push(const ExactState& state, double cost, std::uint64_t from, const Rerun& rerun) {
    const auto [found, is_new] = known_.try_emplace(state.key(), Known{cost, from, rerun, false});
    if (!is_new && found->second.cost <= cost) return;
    found->second = {cost, from, rerun, false};
    heap_.emplace(cost, state.key());
  }

  // The alive items after an op, if it fits when those of `gone` go with it.
  bool runs(Index op, Items& alive, Items gone, Items kept) const {
    const Items uses = set_of(model_.contents.uses[at(op)]), makes = set_of(model_.contents.makes[at(op)]);
    if ((uses & ~alive) != 0) return false;
    const Items after = alive & ~gone;
    const Items twice = makes & alive & kept;
    const Items written = makes & ~alive;
    const Bytes saved = model_.contents.written_over(op, [after](Index i) { return (after >> i & 1) == 0; });
    const Bytes workspace = model_.contents.making[at(op)] - bytes_of(makes);
    if (bytes_of(alive) + bytes_of(written) + bytes_of(twice) + workspace - saved > capacity_) return false;
    alive = after | makes;
    return true;
  }

  void expand(const ExactState& state, double cost) {
    const Items kept = kept_[state.stage], kept_after = kept_[state.stage + 1];
    for (std::size_t i = 0; i < model_.contents.items.size(); ++i)
      if ((state.alive & ~kept) >> i & 1)
        push({state.stage, state.alive & ~(Items{1} << i), state.fetched}, cost, state.key(), {0, kNone});
    const auto op = static_cast<Index>(state.stage);
    const Items uses = set_of(model_.contents.uses[at(op)]) & ~kept_after;
    for_subsets(uses, [&](Items gone) {
      Items alive = state.alive;
      if (runs(op, alive, gone, 0)) push({state.stage + 1, alive, state.fetched}, cost, state.key(), {0, kNone});
    });
    for (Index u = 0; u < static_cast<Index>(model_.units.size()); ++u) {
      if (!model_.may_run_again(u, op)) continue;
      const Unit& unit = model_.units[at(u)];
      if (unit.moved != kNone) {
        fetch(state, u, cost);
        continue;
      }
      const Items needs = set_of(unit.needs) & ~kept;
      for_subsets(needs, [&](Items gone) {
        Items alive = state.alive;
        for (std::size_t k = 0; k < unit.ops.size(); ++k) {
          const Items now = k + 1 == unit.ops.size() ? gone : 0;
          if (!runs(unit.ops[k], alive, now & set_of(model_.contents.uses[at(unit.ops[k])]), kept)) return;
        }
        push({state.stage, alive, state.fetched}, cost + unit.cost, state.key(), {op, u});
      });
    }
  }

  // What is fetched was moved out as soon as it was whole. It was alive then, so that this needed no bytes.
  void fetch(const ExactState& state, Index u, double cost) {
    const Unit& unit = model_.units[at(u)];
    const Items items = set_of(unit.items);
    const ExactState next{state.stage, state.alive | items, state.fetched | items};
    if (bytes_of(next.alive) > capacity_) return;
    const double once = (items & ~state.fetched) == 0 ? 0 : unit.once;
    push(next, cost + unit.cost + once, state.key(), {static_cast<Index>(state.stage), u});
  }

  template <class F>
  static void for_subsets(Items set, F&& f) {
    for (Items subset = set;; subset = (subset - 1) & set) {
      f(subset);
      if (subset == 0) return;
    }
  }

  Exact result(const ExactState& end, double cost) const {
    Exact found{true, cost, {}};
    std::uint64_t key = end.key();
    const std::uint64_t start = ExactState{0, given_, 0}.key();
    while (key != start) {
      const Known& known = known_.at(key);
      if (known.rerun.unit != kNone) found.reruns.push_back(known.rerun);
      key = known.from;
    }
    std::reverse(found.reruns.begin(), found.reruns.end());
    return found;
  }

  using Entry = std::pair<double, std::uint64_t>;

  const FitModel& model_;
  Bytes capacity_;
  std::vector<Items> kept_;  // per stage
  Items given_ = 0;
  std::unordered_map<std::uint64_t, Known> known_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace

std::optional<Exact> exact(const FitModel& model, Bytes capacity, std::size_t most) {
  if (model.contents.items.size() > kMostItems || model.op_count() > kMostOps) return std::nullopt;
  return StateSearch(model, capacity).run(most);
}

}  // namespace memplan
