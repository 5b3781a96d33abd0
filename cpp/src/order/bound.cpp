#include "order/bound.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "order/cuts.hpp"
#include "order/traces.hpp"

namespace memplan {

namespace {

// Of ops that none waits for: a proof looks at each of them.
constexpr std::size_t kMostLast = 1000;

// Of the work, one part in so many. What it is good for, it does with a hundredth of that.
constexpr std::int64_t kShareOfTraces = 4;

std::vector<Index> ops_at_the_end(const ContentsModel& model) {
  std::vector<Index> ops;
  for (Index op = 0; op < model.op_count(); ++op)
    if (model.followers[at(op)].empty()) ops.push_back(op);
  return ops;
}

Bytes made(const ContentsModel& model, Index op) { return model.making[at(op)] - model.over_at_most[at(op)]; }

// What is needed in the end: what the caller keeps, and while the last op runs. One of those that none waits for is the
// last, after all others; the one that needs least then bounds them all.
Bytes bytes_at_the_end(const ContentsModel& model, const std::vector<Index>& last) {
  Bytes kept = 0, least = last.size() <= kMostLast ? kMaxBytes : 0;
  for (const Content& item : model.items)
    if (item.kept) kept += item.bytes;
  for (const Index op : last) {
    Bytes need = kept + made(model, op);
    for (const Index i : model.makes[at(op)])
      if (model.items[at(i)].kept) need -= model.items[at(i)].bytes;
    for (const Index i : model.uses[at(op)])
      if (!model.items[at(i)].kept) need += model.items[at(i)].bytes;
    least = std::min(least, need);
  }
  return std::max(kept, least);
}

OrderNeed need_of(const ContentsModel& model, Index op, const CutFlow& flow) {
  OrderNeed need;
  need.op = op;
  need.bytes = flow.bytes + (op == kNone ? 0 : made(model, op));
  for (const auto& [i, user, bytes] : flow.held) {
    const Content& item = model.items[at(i)];
    need.held.push_back({item.tensor, item.begin, user, bytes});
  }
  for (const auto& [k, before, bytes] : flow.passed) need.passed.push_back({k, before, bytes});
  return need;
}

// The bytes of tensors that are alive after the ops of a cut, by tensor.
std::vector<OrderNeed::Alive> alive_after(const ContentsModel& model, const Cut& cut) {
  std::map<Index, Bytes> alive;
  for (const Content& item : model.items) {
    const bool is_made = item.maker == kNone || cut.in_set[at(item.maker)];
    const auto is_to_come = [&](Index user) { return !cut.in_set[at(user)]; };
    if (is_made && (item.kept || std::any_of(item.users.begin(), item.users.end(), is_to_come)))
      alive[item.tensor] += item.bytes;
  }
  std::vector<OrderNeed::Alive> found;
  for (const auto& [tensor, bytes] : alive) found.push_back({tensor, bytes});
  return found;
}

// A higher bound, by the sequence of some ops; nothing if none is found.
OrderBound bound_by_traces(const ContentsModel& model, Cuts& cuts, std::span<const Index> order, Index first,
                           Bytes enough, std::int64_t work) {
  const TraceBound found = trace_bound(model, cuts, order, first, enough, work);
  OrderBound bound{found.bytes, found.ops, {}};
  for (const TraceRule& rule : found.rules) {
    std::int64_t unlimited = kMaxBytes;
    const auto cut = cuts.before(rule.op, rule.before, rule.after, unlimited);
    OrderNeed need = need_of(model, rule.op, cuts.flow());
    need.before = rule.before;
    need.after = rule.after;
    need.alive = alive_after(model, *cut);
    bound.needs.push_back(std::move(need));
  }
  return bound;
}

// The needs of each op that may be the last, or of what the caller keeps.
OrderBound bound_at_the_end(const ContentsModel& model, Cuts& cuts) {
  const std::vector<Index> last = ops_at_the_end(model);
  OrderBound bound{bytes_at_the_end(model, last), {}, {}};
  CutFlow kept;
  for (Index i = 0; i < static_cast<Index>(model.items.size()); ++i)
    if (const Content& item = model.items[at(i)]; item.kept) {
      kept.held.push_back({i, kNone, item.bytes});
      kept.bytes += item.bytes;
    }
  if (kept.bytes == bound.bytes) {
    bound.needs.push_back(need_of(model, kNone, kept));
    return bound;
  }
  bound.ops = last;
  for (const Index op : last) {
    std::vector<Index> others = last;
    std::erase(others, op);
    std::int64_t work = kMaxBytes;
    const auto cut = cuts.before(op, others, {}, work);
    bound.needs.push_back(need_of(model, op, cuts.flow()));
    bound.needs.back().before = std::move(others);
    bound.needs.back().alive = alive_after(model, *cut);
  }
  return bound;
}

}  // namespace

OrderBound bound_of(const ContentsModel& model, std::span<const Index> order, std::int64_t work,
                    const Deadline& deadline) {
  const std::vector<Bytes> needs = needs_of(model, order);
  std::vector<std::size_t> by_need(order.size());
  std::iota(by_need.begin(), by_need.end(), std::size_t{0});
  std::stable_sort(by_need.begin(), by_need.end(), [&](std::size_t a, std::size_t b) { return needs[a] > needs[b]; });
  Cuts cuts(model, deadline);
  OrderBound bound{bytes_at_the_end(model, ops_at_the_end(model)), {}, {}};
  try {
    for (const std::size_t k : by_need) {
      if (needs[k] <= bound.bytes || work <= 0) break;
      const Index op = order[k];
      const std::optional<Cut> cut = cuts.before(op, work);
      if (cuts.proven() + made(model, op) <= bound.bytes) continue;
      OrderNeed need = need_of(model, op, cuts.flow());
      if (cut) need.alive = alive_after(model, *cut);
      bound = {need.bytes, {op}, {std::move(need)}};
    }
    if (needs[by_need.front()] > bound.bytes) {
      const Index first = bound.ops.empty() ? order[by_need.front()] : bound.ops.front();
      OrderBound higher = bound_by_traces(model, cuts, order, first, needs[by_need.front()], work / kShareOfTraces);
      if (higher.bytes > bound.bytes) bound = std::move(higher);
    }
  } catch (const EndedError&) {
  }
  if (bound.needs.empty()) {
    const Deadline none;
    Cuts at_the_end(model, none);
    return bound_at_the_end(model, at_the_end);
  }
  return bound;
}

}  // namespace memplan
