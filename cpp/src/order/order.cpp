#include "memplan/order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/happens_before.hpp"
#include "order/contents_model.hpp"
#include "order/rules.hpp"
#include "placing/deadline.hpp"

namespace memplan {

namespace {

Bytes load_of(const Graph& graph, const StorageOptions& storage) { return load(buffers_of(graph, storage).problem); }

Bytes most_needed(const ContentsModel& model, const FoundOrder& order) {
  const std::vector<Bytes> needs = needs_of(model, order.ops);
  return *std::max_element(needs.begin(), needs.end());
}

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
    const Bytes least = std::max(order.bound, most_needed(model, other));
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
  GraphSpec spec{graph.tensors(), {}, {}, graph.layout()};
  for (const Index k : ops) spec.ops.push_back(spec_of(graph, graph.op(k)));
  for (const Index t : graph.outputs()) spec.outputs.push_back(graph.tensor(t).name);
  return Graph(std::move(spec));
}

OpOrder order_of(const Graph& graph, const ChosenOrder& chosen, const StorageOptions& storage,
                 const OrderOptions& options) {
  OpOrder order{std::vector<Index>(graph.ops().size()), load_of(graph, storage), 0, "given", false};
  std::iota(order.ops.begin(), order.ops.end(), Index{0});
  if (!has_contents_model(graph)) return order;
  const ContentsModel model(graph, storage);
  PlanOptions limits;
  limits.time_limit = options.time_limit;
  limits.stop = options.stop;
  const Deadline deadline(limits);
  Telling tell(options.on_order);
  FoundOrders found = chosen.order.run({model, chosen.set, deadline, tell});
  if (options.on_order) tell.order(found.best_first.front().name, most_needed(model, found.best_first.front()));
  order.bound = found.bound;
  order.interrupted = found.interrupted;
  if (found.best_first.size() == 1) {
    const FoundOrder& only = found.best_first.front();
    take(order, only, load_of(reordered(graph, only.ops), storage));
  } else {
    take_best(order, found.best_first, model, graph, storage);
  }
  return order;
}

OpOrder best_order(const Graph& graph, const StorageOptions& storage, const OrderOptions& options) {
  return order_of(graph, choose_order("best"), storage, options);
}

}  // namespace memplan
