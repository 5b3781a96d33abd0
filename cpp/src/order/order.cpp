#include "memplan/order.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/deadline.hpp"
#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/happens_before.hpp"
#include "order/bodies.hpp"
#include "order/contents_model.hpp"
#include "order/rules.hpp"

namespace memplan {

namespace {

Bytes most_needed(const ContentsModel& model, const FoundOrder& order) {
  const std::vector<Bytes> needs = needs_of(model, order.ops);
  return *std::max_element(needs.begin(), needs.end());
}

// Looks for an order, and at the buffers that it has.
class Ordering {
 public:
  Ordering(const Graph& graph, const ChosenOrder& chosen, const StorageOptions& storage, const OrderOptions& options)
      : graph_(graph), chosen_(chosen), storage_(storage), options_(options) {}

  OpOrder run() {
    order_.ops.resize(graph_.ops().size());
    std::iota(order_.ops.begin(), order_.ops.end(), Index{0});
    order_.found_by = "given";
    const auto begin = std::chrono::steady_clock::now();
    order_.load = order_.given_load = load(buffers_of(graph_, storage_).problem);
    order_.seconds_to_form = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (has_contents_model(graph_)) search();
    return std::move(order_);
  }

 private:
  void search() {
    const Deadline deadline(options_);
    const ContentsModel model(graph_, storage_);
    OrderReporter tell(options_.on_order);
    FoundOrders found;
    try {
      const OrderTask task{model, chosen_.set, deadline, tell};
      found = has_bodies(graph_) ? orders_with_bodies(graph_, chosen_, task) : chosen_.order.run(task);
    } catch (const InterruptedError&) {
      order_.interrupted = true;
    } catch (const TimeLimitError&) {
    }
    if (found.best_first.empty()) return;
    if (options_.on_order) tell.order(found.best_first.front().name, most_needed(model, found.best_first.front()));
    order_.bound = found.bound;
    order_.interrupted = found.interrupted;
    if (found.best_first.size() == 1) {
      consider(found.best_first.front(), false);
    } else {
      take_best(found.best_first, model, deadline);
    }
  }

  // The order with the lowest load, of the given one and the best few that were found; what tensors share may make
  // another the best than what they hold. Late, only the best one is looked at.
  void take_best(std::span<const FoundOrder> found, const ContentsModel& model, const Deadline& deadline) {
    constexpr int kLooks = 4;
    int looks = 0;
    for (const FoundOrder& other : found) {
      const Bytes least = std::max(order_.bound, most_needed(model, other));
      if (looks == kLooks || order_.load <= least || (looks > 0 && deadline.passed())) return;
      if (other.name == "given") continue;
      ++looks;
      consider(other, true);
    }
  }

  void consider(const FoundOrder& found, bool only_if_better) {
    std::shared_ptr<const Graph> other;
    Bytes bytes = order_.given_load;
    if (!std::is_sorted(found.ops.begin(), found.ops.end())) {
      other = std::make_shared<const Graph>(reordered(graph_, found.ops));
      bytes = load(buffers_of(*other, storage_).problem);
    }
    if (only_if_better && bytes >= order_.load) return;
    order_.ops = found.ops;
    order_.load = bytes;
    order_.found_by = found.name;
    order_.graph = std::move(other);
  }

  const Graph& graph_;
  const ChosenOrder& chosen_;
  const StorageOptions& storage_;
  const OrderOptions& options_;
  OpOrder order_;
};

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

Graph reordered_like(const Graph& graph, const Graph& other) {
  std::unordered_map<std::string_view, Index> position;
  for (Index k = 0; k < graph.op_count(); ++k) position.emplace(graph.op(k).name, k);
  std::vector<Index> ops;
  for (const Op& op : other.ops()) ops.push_back(position.at(op.name));
  return reordered(graph, ops);
}

OpOrder order_of(const Graph& graph, const ChosenOrder& chosen, const StorageOptions& storage,
                 const OrderOptions& options) {
  return Ordering(graph, chosen, storage, options).run();
}

OpOrder best_order(const Graph& graph, const StorageOptions& storage, const OrderOptions& options) {
  return order_of(graph, choose_order("best"), storage, options);
}

}  // namespace memplan
