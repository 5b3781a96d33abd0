#include "order/traces.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace memplan {

namespace {

constexpr std::size_t kMostNamed = 64;
constexpr std::size_t kMostTraces = 100'000;  // that one search looks at

using Trace = std::uint64_t;  // of the named ops, those that have run

constexpr Trace bit_of(std::size_t k) { return Trace{1} << k; }

// Of a named op: what it costs where all of `before` have run, and none of `after`.
struct Rule {
  Trace before, after;
  Bytes bytes;
};

// A named op runs next after a set of ops.
struct Waypoint {
  Index op;
  std::vector<bool> set;
};

struct StepKey {
  Trace trace;
  std::size_t op;
  bool operator==(const StepKey&) const = default;
};

struct HashOfStep {
  std::size_t operator()(const StepKey& key) const {
    const std::uint64_t hash = (key.trace ^ (key.op << 58)) * 0x9E3779B97F4A7C15ull;
    return static_cast<std::size_t>(hash ^ (hash >> 31));
  }
};

class TraceSearch {
 public:
  TraceSearch(const ContentsModel& model, Cuts& cuts, std::span<const Index> order, Bytes enough,
              std::int64_t& work_left)
      : model_(model), cuts_(cuts), order_(order.begin(), order.end()), enough_(enough), work_left_(work_left) {}

  TraceBound run(Index first) {
    name(first);
    while (search() && bound_ < enough_ && refine()) {
    }
    return result();
  }

 private:
  Bytes made(Index op) const { return model_.making[at(op)] - model_.over_at_most[at(op)]; }
  Trace all() const { return named_.size() == 64 ? ~Trace{0} : bit_of(named_.size()) - 1; }

  std::vector<Index> ops_of(Trace trace) const {
    std::vector<Index> ops;
    for (; trace != 0; trace &= trace - 1) ops.push_back(named_[at(std::countr_zero(trace))]);
    return ops;
  }

  std::size_t number_of(Index op) const { return at(std::find(named_.begin(), named_.end(), op) - named_.begin()); }

  void name(Index op) {
    const std::size_t k = named_.size();
    named_.push_back(op);
    rules_.emplace_back();
    waits_.push_back(0);
    const std::vector<bool> before = reached(op, model_.waits), after = reached(op, model_.followers);
    for (std::size_t other = 0; other < k; ++other) {
      if (before[at(named_[other])]) waits_[k] |= bit_of(other);
      if (after[at(named_[other])]) waits_[other] |= bit_of(k);
    }
    known_.clear();
    for (std::size_t s = 0; s < seen_.size(); ++s) note(s);
  }

  std::vector<bool> reached(Index op, const std::vector<std::vector<Index>>& edges) {
    std::vector<bool> found(edges.size(), false);
    std::vector<Index> waiting = edges[at(op)];
    while (!waiting.empty()) {
      const Index k = waiting.back();
      waiting.pop_back();
      if (found[at(k)]) continue;
      found[at(k)] = true;
      --work_left_;
      waiting.insert(waiting.end(), edges[at(k)].begin(), edges[at(k)].end());
    }
    return found;
  }

  // What a named op costs at least, as far as it is known.
  Bytes least(Trace trace, std::size_t k) {
    Bytes bytes = 0;
    work_left_ -= static_cast<std::int64_t>(rules_[k].size() + 1);
    for (const Rule& rule : rules_[k])
      if ((rule.before & ~trace) == 0 && (rule.after & trace) == 0) bytes = std::max(bytes, rule.bytes);
    return bytes;
  }

  // The least that an op needs after some of the waypoints, and before others; makes it a rule, and names the ops of
  // the rule, if that is more than the bound. Nothing: the work is done.
  struct Cost {
    Bytes bytes;
    std::vector<bool> set;
  };
  std::optional<Cost> cost(Index op, const std::vector<Index>& before, const std::vector<Index>& after) {
    std::optional<Cut> cut = cuts_.before(op, before, after, work_left_);
    if (!cut) return std::nullopt;
    return Cost{cut->alive + made(op), std::move(cut->in_set)};
  }

  // The rule of the last cut: only those of the ops before and after that the flow needs.
  TraceRule rule_of(Index op, std::vector<Index> before, std::vector<Index> after, Bytes bytes) {
    const std::vector<Bytes> gives = cuts_.gives();
    const auto drop = [&](std::vector<Index>& ops, const std::vector<std::vector<Index>>& edges,
                          const std::vector<Index>& always, bool counts) {
      for (std::size_t k = 0; k < ops.size();) {
        std::vector<bool> with = closed(ops, always, edges);
        std::vector<Index> fewer = ops;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
        const std::vector<bool> without = closed(fewer, always, edges);
        bool needless = true;
        for (std::size_t o = 0; needless && o < with.size(); ++o)
          if (with[o] && !without[o]) needless = counts ? gives[o] == 0 : gives[o] >= 0;
        if (needless) {
          ops = std::move(fewer);
        } else {
          ++k;
        }
      }
    };
    drop(before, model_.waits, model_.waits[at(op)], true);
    drop(after, model_.followers, {op}, false);
    return {op, std::move(before), std::move(after), bytes};
  }

  std::vector<bool> closed(const std::vector<Index>& ops, const std::vector<Index>& always,
                           const std::vector<std::vector<Index>>& edges) {
    std::vector<bool> found(edges.size(), false);
    std::vector<Index> waiting = ops;
    waiting.insert(waiting.end(), always.begin(), always.end());
    work_left_ -= static_cast<std::int64_t>(edges.size() / 64);
    while (!waiting.empty()) {
      const Index k = waiting.back();
      waiting.pop_back();
      if (found[at(k)]) continue;
      found[at(k)] = true;
      work_left_ -= 1 + static_cast<std::int64_t>(edges[at(k)].size());
      waiting.insert(waiting.end(), edges[at(k)].begin(), edges[at(k)].end());
    }
    return found;
  }

  void add(const TraceRule& rule) {
    Rule bits{0, 0, rule.bytes};
    for (const Index op : rule.before) bits.before |= bit_of(number_of(op));
    for (const Index op : rule.after) bits.after |= bit_of(number_of(op));
    rules_[number_of(rule.op)].push_back(bits);
  }

  // What a step costs; as much as is known to be enough where a set of ops is known by which it costs no more.
  std::optional<Bytes> cost_of(Trace trace, std::size_t k, Bytes already) {
    const auto known = known_.find({trace, k});
    if (known != known_.end() && known->second < bound_) return already;
    const std::vector<Index> before = ops_of(trace), after = ops_of(all() & ~trace & ~bit_of(k));
    std::optional<Cost> found = cost(named_[k], before, after);
    if (!found) return std::nullopt;
    if (found->bytes >= bound_) add(rule_of(named_[k], before, after, found->bytes));
    seen_.push_back({named_[k], found->bytes, std::move(found->set)});
    note(seen_.size() - 1);
    return seen_.back().bytes;
  }

  void note(std::size_t s) {
    Trace trace = 0;
    for (std::size_t k = 0; k < named_.size(); ++k)
      if (seen_[s].set[at(named_[k])]) trace |= bit_of(k);
    const auto [known, is_new] = known_.try_emplace({trace, number_of(seen_[s].op)}, seen_[s].bytes);
    known->second = std::min(known->second, seen_[s].bytes);
  }

  // The way whose dearest step is cheapest: the cheapest first, and of those the furthest. The bound is what it costs.
  bool search() {
    using Candidate = std::tuple<Bytes, int, bool, Trace, std::size_t>;  // cost, ops to come, not looked at, trace, op
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    std::unordered_map<Trace, std::size_t> by;  // per trace, the op that ran last
    const auto reach = [&](Trace trace, std::size_t last, Bytes bytes) {
      if (!by.try_emplace(trace, last).second) return;
      for (std::size_t k = 0; k < named_.size(); ++k)
        if ((trace & bit_of(k)) == 0 && (waits_[k] & ~trace) == 0)
          queue.emplace(std::max(bytes, least(trace, k)), -std::popcount(trace), true, trace, k);
    };
    reach(0, 0, bound_);
    while (!queue.empty() && by.size() < kMostTraces && work_left_ > 0) {
      const auto [bytes, count, fresh, trace, k] = queue.top();
      if (by.contains(trace | bit_of(k))) {
        queue.pop();
        continue;
      }
      if (bytes > bound_) {
        bound_ = bytes;
        proven_by_ = named_.size();
      }
      if (bound_ >= enough_) return true;
      queue.pop();
      if (fresh) {
        const std::optional<Bytes> cost = cost_of(trace, k, bytes);
        if (!cost) return false;
        queue.emplace(std::max(bytes, *cost), count, false, trace, k);
        continue;
      }
      reach(trace | bit_of(k), k, bytes);
      if ((trace | bit_of(k)) == all()) {
        way_.clear();
        for (Trace t = all(); t != 0; t &= ~bit_of(by[t])) way_.push_back(named_[by[t]]);
        std::reverse(way_.begin(), way_.end());
        return true;
      }
    }
    return false;
  }

  // Names an op that needs more than the bound wherever it runs between two steps of the way; false if there is none,
  // or no work is left for it.
  bool refine() {
    std::vector<Waypoint> way;
    for (std::size_t k = 0; k < way_.size(); ++k) {
      const std::vector<Index> before(way_.begin(), way_.begin() + static_cast<std::ptrdiff_t>(k));
      const std::vector<Index> after(way_.begin() + static_cast<std::ptrdiff_t>(k) + 1, way_.end());
      std::optional<Cost> found = cost(way_[k], before, after);
      if (!found) return false;
      way.push_back({way_[k], std::move(found->set)});
    }
    for (;;) {
      const std::vector<Index> order = order_by(way);
      const Index op = dearest(order);
      if (op == kNone || std::any_of(way.begin(), way.end(), [&](const Waypoint& w) { return w.op == op; }))
        return false;
      const auto next = std::find_if(way.begin(), way.end(), [&](const Waypoint& w) { return w.set[at(op)]; });
      std::vector<Index> before, after;
      for (auto w = way.begin(); w != way.end(); ++w) (w < next ? before : after).push_back(w->op);
      std::optional<Cost> found = cost(op, before, after);
      if (!found) return false;
      if (found->bytes > bound_) return name_all(rule_of(op, before, after, found->bytes));
      for (std::size_t k = 0; k < found->set.size(); ++k) {
        if (next != way.begin() && (std::prev(next)->set[k] || static_cast<Index>(k) == std::prev(next)->op))
          found->set[k] = true;
        if (next != way.end() && !next->set[k]) found->set[k] = false;
      }
      way.insert(next, {op, std::move(found->set)});
    }
  }

  bool name_all(const TraceRule& rule) {
    std::vector<Index> ops = rule.before;
    ops.insert(ops.end(), rule.after.begin(), rule.after.end());
    ops.push_back(rule.op);
    for (const Index op : ops) {
      if (number_of(op) < named_.size()) continue;
      if (named_.size() == kMostNamed) return false;
      name(op);
    }
    add(rule);
    return true;
  }

  // The order, with the waypoints in their sequence, each right after its set.
  std::vector<Index> order_by(const std::vector<Waypoint>& way) {
    std::vector<std::size_t> part(order_.size(), 2 * way.size());
    for (std::size_t w = way.size(); w-- > 0;) {
      part[at(way[w].op)] = 2 * w + 1;
      for (std::size_t k = 0; k < part.size(); ++k)
        if (way[w].set[k]) part[k] = 2 * w;
    }
    work_left_ -= static_cast<std::int64_t>(way.size() * order_.size() / 8);
    std::vector<Index> order = order_;
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return part[at(a)] < part[at(b)]; });
    return order;
  }

  // The op that needs most, and more than the bound; kNone if none does.
  Index dearest(const std::vector<Index>& order) {
    OrderState state(model_);
    Index op = kNone;
    Bytes most = bound_;
    for (const Index k : order) {
      if (state.alive() + made(k) > most) {
        most = state.alive() + made(k);
        op = k;
      }
      state.run(k);
    }
    work_left_ -= static_cast<std::int64_t>(4 * order.size());
    return op;
  }

  // The rules that close every way below the bound, of the ops that had names when the bound was found: a search with
  // more names that did not get further has left ways open, and their traces may be without number.
  TraceBound result() {
    named_.resize(proven_by_);
    TraceBound found{bound_, named_, {}};
    for (auto& rules : rules_)
      std::erase_if(rules, [&](const Rule& rule) { return ((rule.before | rule.after) & ~all()) != 0; });
    rules_.resize(proven_by_);
    std::vector<std::vector<bool>> used;
    for (const auto& rules : rules_) used.emplace_back(rules.size(), false);
    std::vector<Trace> waiting = {0};
    std::unordered_map<Trace, bool> reached = {{0, true}};
    while (!waiting.empty()) {
      const Trace trace = waiting.back();
      waiting.pop_back();
      for (std::size_t k = 0; k < named_.size(); ++k) {
        if ((trace & bit_of(k)) != 0 || (waits_[k] & all() & ~trace) != 0) continue;
        std::optional<std::size_t> by;
        for (std::size_t r = 0; r < rules_[k].size(); ++r) {
          const Rule& rule = rules_[k][r];
          if (rule.bytes < bound_ || (rule.before & ~trace) != 0 || (rule.after & trace) != 0) continue;
          if (!by || used[k][r]) by = r;
        }
        if (by) {
          used[k][*by] = true;
        } else if (reached.try_emplace(trace | bit_of(k), true).second) {
          waiting.push_back(trace | bit_of(k));
        }
      }
    }
    for (std::size_t k = 0; k < named_.size(); ++k)
      for (std::size_t r = 0; r < rules_[k].size(); ++r)
        if (used[k][r])
          found.rules.push_back(
              {named_[k], ops_of(rules_[k][r].before), ops_of(rules_[k][r].after), rules_[k][r].bytes});
    return found;
  }

  struct Seen {
    Index op;
    Bytes bytes;
    std::vector<bool> set;
  };

  const ContentsModel& model_;
  Cuts& cuts_;
  std::vector<Index> order_;
  Bytes enough_;
  std::int64_t& work_left_;
  Bytes bound_ = 0;
  std::vector<Index> named_;
  std::size_t proven_by_ = 0;                             // how many of them there were when the bound rose last
  std::vector<Trace> waits_;                              // per named op, those that run before it in every order
  std::vector<std::vector<Rule>> rules_;                  // per named op
  std::vector<Seen> seen_;                                // sets of ops after which a named op costs so much
  std::unordered_map<StepKey, Bytes, HashOfStep> known_;  // by the traces of these
  std::vector<Index> way_;
};

}  // namespace

TraceBound trace_bound(const ContentsModel& model, Cuts& cuts, std::span<const Index> order, Index first, Bytes enough,
                       std::int64_t& work_left) {
  return TraceSearch(model, cuts, order, enough, work_left).run(first);
}

}  // namespace memplan
