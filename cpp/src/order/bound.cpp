#include "order/bound.hpp"

#include <algorithm>
#include <numeric>

#include "order/cuts.hpp"

namespace memplan {

namespace {

// What is needed in the end: what the caller keeps, and while the last op runs. One of those that none waits for is the
// last, after all others; the one that needs least then bounds them all.
OrderBound bound_at_the_end(const ContentsModel& model) {
  Bytes kept = 0, least = kMaxBytes;
  for (const Content& item : model.items)
    if (item.kept) kept += item.bytes;
  for (Index op = 0; op < model.op_count(); ++op) {
    if (!model.followers[at(op)].empty()) continue;
    Bytes need = kept + model.making[at(op)] - model.over_at_most[at(op)];
    for (const Index i : model.makes[at(op)])
      if (model.items[at(i)].kept) need -= model.items[at(i)].bytes;
    for (const Index i : model.uses[at(op)])
      if (!model.items[at(i)].kept) need += model.items[at(i)].bytes;
    least = std::min(least, need);
  }
  OrderBound bound{std::max(kept, least), kNone, {}};
  for (Index op = 0; op < model.op_count(); ++op) bound.before.push_back(op);
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
  OrderBound bound = bound_at_the_end(model);
  try {
    for (const std::size_t k : by_need) {
      if (needs[k] <= bound.bytes) break;
      const Index op = order[k];
      const std::optional<Cut> cut = cuts.before(op, work);
      if (!cut) break;
      const Bytes bytes = cut->alive + model.making[at(op)] - model.over_at_most[at(op)];
      if (bytes <= bound.bytes) continue;
      bound = {bytes, op, {}};
      for (Index before = 0; before < model.op_count(); ++before)
        if (cut->in_set[at(before)]) bound.before.push_back(before);
    }
  } catch (const EndedError&) {
  }
  return bound;
}

}  // namespace memplan
