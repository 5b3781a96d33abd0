#include "memplan/order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/happens_before.hpp"
#include "order/contents_model.hpp"
#include "order/cuts.hpp"
#include "order/rules.hpp"
#include "placing/deadline.hpp"

namespace memplan {

namespace {

std::vector<Index> given_ops(Index count) {
  std::vector<Index> ops(at(count));
  std::iota(ops.begin(), ops.end(), Index{0});
  return ops;
}

// Whether all bytes together are few enough for sums of them.
bool may_be_summed(const Graph& graph) {
  Bytes sum = 0;
  for (const Tensor& tensor : graph.tensors()) sum = saturated_add(sum, tensor.bytes);
  for (const Op& op : graph.ops()) sum = saturated_add(sum, op.workspace);
  return sum < kMaxBytes / 16;
}

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
  return {std::max(kept, least), kNone, given_ops(model.op_count())};
}

// The ops that need most in an order, from the top down, until the bound is as high as what the next one needs, or the
// work is done: it holds at any time.
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

Bytes load_of(const Graph& graph, const StorageOptions& storage) { return load(buffers_of(graph, storage).problem); }

void take(OpOrder& order, const FoundOrder& found, Bytes load) {
  order.ops = found.ops;
  order.load = load;
  order.found_by = found.name;
}

// The order with the lowest load, of the given one and the best few that were found; what tensors share may make
// another the best than what they hold.
void take_best(OpOrder& order, std::span<const FoundOrder> found, const ContentsModel& model, const Graph& graph,
               const StorageOptions& storage) {
  constexpr int kLooks = 4;
  int looks = 0;
  for (const FoundOrder& other : found) {
    const std::vector<Bytes> needs = needs_of(model, other.ops);
    const Bytes least = std::max(order.bound, *std::max_element(needs.begin(), needs.end()));
    if (looks == kLooks || order.load <= least) return;
    if (other.name == "given") continue;
    ++looks;
    const Bytes load = load_of(reordered(graph, other.ops), storage);
    if (load < order.load) take(order, other, load);
  }
}

}  // namespace

Graph reordered(const Graph& graph, const std::vector<Index>& ops) {
  std::vector<Index> place(graph.ops().size(), kNone);
  for (std::size_t k = 0; k < ops.size(); ++k) {
    if (ops[k] < 0 || ops[k] >= graph.op_count() || place[at(ops[k])] != kNone)
      throw GraphError("an order must have each of the " + std::to_string(graph.op_count()) + " ops once");
    place[at(ops[k])] = static_cast<Index>(k);
  }
  if (ops.size() != graph.ops().size())
    throw GraphError("an order must have each of the " + std::to_string(graph.op_count()) + " ops once, got " +
                     std::to_string(ops.size()));
  const std::vector<std::vector<Index>> waits = waits_of(graph);
  for (Index k = 0; k < graph.op_count(); ++k)
    for (const Index before : waits[at(k)])
      if (place[at(before)] > place[at(k)])
        throw GraphError("op " + quoted(graph.op(k).name) + " must come after op " + quoted(graph.op(before).name));
  GraphSpec spec{graph.tensors(), {}, {}};
  for (const Index k : ops) spec.ops.push_back(spec_of(graph, graph.op(k)));
  for (const Index t : graph.outputs()) spec.outputs.push_back(graph.tensor(t).name);
  return Graph(std::move(spec));
}

OpOrder order_of(const Graph& graph, const ChosenOrder& chosen, const StorageOptions& storage,
                 const OrderOptions& options) {
  OpOrder order{given_ops(graph.op_count()), load_of(graph, storage), 0, "given", false};
  if (graph.op_count() == 0 || !on_one_stream(graph) || !may_be_summed(graph)) return order;
  const ContentsModel model(graph, storage);
  PlanOptions limits;
  limits.time_limit = options.time_limit;
  limits.stop = options.stop;
  const Deadline deadline(limits);
  FoundOrders found = chosen.order.run({model, chosen.set, deadline});
  order.bound = found.bound;
  order.interrupted = found.interrupted;
  if (found.best_first.size() == 1) {
    const FoundOrder& only = found.best_first.front();
    take(order, only, load_of(reordered(graph, only.ops), storage));
  } else {
    order.bound = std::max(found.bound, bound_of(model, found.best_first.front().ops, options.work, deadline).bytes);
    take_best(order, found.best_first, model, graph, storage);
  }
  return order;
}

OpOrder best_order(const Graph& graph, const StorageOptions& storage, const OrderOptions& options) {
  return order_of(graph, choose_order("best"), storage, options);
}

OrderBound order_bound(const Graph& graph, const StorageOptions& storage) {
  if (graph.op_count() == 0 || !on_one_stream(graph) || !may_be_summed(graph)) return {};
  const ContentsModel model(graph, storage);
  return bound_of(model, given_ops(graph.op_count()), OrderOptions().work, Deadline());
}

}  // namespace memplan
