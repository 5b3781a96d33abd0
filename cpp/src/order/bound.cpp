#include "order/bound.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "order/cuts.hpp"
#include "order/traces.hpp"

namespace memplan {

namespace {

// Of ops that none waits for: a proof looks at each of them, and each time at all ops.
constexpr std::size_t kMostLast = 1000;
constexpr std::size_t kMostLooksAtTheEnd = 20'000'000;

// Of proofs, in amounts of bytes: some 200 MB.
constexpr std::size_t kMostRows = 10'000'000;

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
  const bool few = last.size() <= kMostLast && last.size() * at(model.op_count()) <= kMostLooksAtTheEnd;
  Bytes kept = 0, least = few ? kMaxBytes : 0;
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

// The bytes of tensors that are alive after the ops of the last cut, by tensor.
std::vector<OrderNeed::Alive> alive_after(const ContentsModel& model, const Cut& cut, const Cuts& cuts) {
  std::map<Index, std::pair<Bytes, bool>> alive;
  for (const Content& item : model.items) {
    const bool is_made = item.maker == kNone || cut.in_set[at(item.maker)];
    const auto is_to_come = [&](Index user) { return !cut.in_set[at(user)]; };
    if (is_made && (item.kept || std::any_of(item.users.begin(), item.users.end(), is_to_come)))
      alive[item.tensor].first += item.bytes;
  }
  for (const CutFlow::Held& held : cuts.always()) alive[model.items[at(held.item)].tensor].second = true;
  std::vector<OrderNeed::Alive> found;
  for (const auto& [tensor, held] : alive) found.push_back({tensor, held.first, held.second});
  return found;
}

// The needs of rules; nothing if that takes too much work, or more bytes than the graph is worth.
std::optional<std::vector<OrderNeed>> needs_of_rules(const ContentsModel& model, Cuts& cuts,
                                                     std::span<const TraceRule> rules, std::int64_t work) {
  std::vector<OrderNeed> needs;
  std::size_t rows = 0;
  for (const TraceRule& rule : rules) {
    const auto cut = cuts.before(rule.op, rule.before, rule.after, work);
    if (!cut) return std::nullopt;
    needs.push_back(need_of(model, rule.op, cuts.flow()));
    needs.back().before = rule.before;
    needs.back().after = rule.after;
    needs.back().alive = alive_after(model, *cut, cuts);
    rows += needs.back().held.size() + needs.back().passed.size() + needs.back().alive.size();
    if (rows > kMostRows) return std::nullopt;
  }
  return needs;
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
    bound.needs.back().alive = alive_after(model, *cut, cuts);
  }
  return bound;
}

// Looks at the ops that need most in an order, from the top down, then at the sequences in which some ops run.
class BoundSearch {
 public:
  BoundSearch(const ContentsModel& model, std::span<const Index> order, std::int64_t work, const Deadline& deadline,
              bool proves)
      : model_(model),
        order_(order),
        work_(work),
        proves_(proves),
        cuts_(model, deadline),
        needs_(needs_of(model, order)),
        by_need_(order.size()) {
    std::iota(by_need_.begin(), by_need_.end(), std::size_t{0});
    std::stable_sort(by_need_.begin(), by_need_.end(),
                     [&](std::size_t a, std::size_t b) { return needs_[a] > needs_[b]; });
    bound_.bytes = bytes_at_the_end(model, ops_at_the_end(model));
  }

  OrderBound run() {
    try {
      look_at_ops();
      if (needs_[by_need_.front()] > bound_.bytes) look_at_sequences();
    } catch (const TimeLimitError&) {
    }
    return std::move(bound_);
  }

 private:
  void look_at_ops() {
    for (const std::size_t k : by_need_) {
      if (needs_[k] <= bound_.bytes || work_ <= 0) return;
      const Index op = order_[k];
      const std::optional<Cut> cut = cuts_.before(op, work_);
      const Bytes bytes = cuts_.proven() + made(model_, op);
      if (bytes <= bound_.bytes) continue;
      bound_ = {bytes, {op}, {}};
      if (!proves_) continue;
      bound_.needs.push_back(need_of(model_, op, cuts_.flow()));
      if (cut) bound_.needs.back().alive = alive_after(model_, *cut, cuts_);
    }
  }

  void look_at_sequences() {
    const Index first = bound_.ops.empty() ? order_[by_need_.front()] : bound_.ops.front();
    std::int64_t part = work_ / kShareOfTraces;
    const TraceBound found = trace_bound(model_, cuts_, order_, first, needs_[by_need_.front()], part);
    if (found.bytes <= bound_.bytes) return;
    std::optional<std::vector<OrderNeed>> needs = std::vector<OrderNeed>{};
    if (proves_) needs = needs_of_rules(model_, cuts_, found.rules, work_ - work_ / kShareOfTraces);
    if (needs) bound_ = {found.bytes, found.ops, std::move(*needs)};
  }

  const ContentsModel& model_;
  std::span<const Index> order_;
  std::int64_t work_;
  bool proves_;
  Cuts cuts_;
  std::vector<Bytes> needs_;
  std::vector<std::size_t> by_need_;  // places in the order, those that need most first
  OrderBound bound_;
};

}  // namespace

Bytes bytes_of_bound(const ContentsModel& model, std::span<const Index> order, std::int64_t work,
                     const Deadline& deadline) {
  return BoundSearch(model, order, work, deadline, false).run().bytes;
}

OrderBound bound_of(const ContentsModel& model, std::span<const Index> order, std::int64_t work,
                    const Deadline& deadline) {
  OrderBound bound = BoundSearch(model, order, work, deadline, true).run();
  if (!bound.needs.empty()) return bound;
  Cuts cuts(model, deadline);
  return bound_at_the_end(model, cuts);
}

}  // namespace memplan
