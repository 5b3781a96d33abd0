#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "asked.hpp"
#include "bindings.hpp"
#include "memplan/errors.hpp"
#include "memplan/fit.hpp"
#include "memplan/solve_fit.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

constexpr std::array<std::string_view, 3> kAgain{"same", "changes", "never"};  // as Again has them

Again again_of(const std::string& name) {
  const auto found = std::find(kAgain.begin(), kAgain.end(), name);
  if (found != kAgain.end()) return static_cast<Again>(found - kAgain.begin());
  throw py::value_error("again must hold same, changes or never, got " + quoted(name));
}

std::vector<OpFacts> facts_of(const std::vector<double>& cost, const std::vector<std::string>& again) {
  if (cost.size() != again.size()) throw py::value_error("cost and again must have one entry per op");
  std::vector<OpFacts> facts;
  for (std::size_t k = 0; k < cost.size(); ++k) facts.push_back({cost[k], again_of(again[k])});
  return facts;
}

// The graph is Python's too: it is shared.
struct FittedGraph {
  std::shared_ptr<Graph> graph;
  Fitted rest;
};

FittedGraph fit_graph(const Graph& graph, const std::vector<double>& cost, const std::vector<std::string>& again,
                      const StorageOptions& storage, std::optional<Bytes> capacity, bool recompute,
                      std::optional<double> transfer, std::int64_t work, std::size_t states,
                      std::optional<double> time_limit, bool interruptible) {
  Watch watch(py::none(), interruptible);
  FitOptions options{{time_limit}, capacity.value_or(0), recompute, transfer, work, states};
  if (watch.can_stop()) options.stop = [&] { return watch.stop(); };
  const std::vector<OpFacts> facts = facts_of(cost, again);
  auto [fitted, interrupted] =
      searched(watch, [&] { return (capacity ? fit : fit_least)(graph, facts, storage, options); });
  fitted.interrupted = interrupted;
  auto shared = std::make_shared<Graph>(std::move(fitted.graph));
  return {std::move(shared), std::move(fitted)};
}

FittedGraph rerun_graph(const Graph& graph, const std::vector<double>& cost, const std::vector<std::string>& again,
                        const StorageOptions& storage, const std::vector<std::pair<Index, Index>>& reruns,
                        const std::vector<std::pair<Index, Index>>& fetches, double transfer) {
  Fitted fitted = with_reruns(graph, facts_of(cost, again), storage, reruns, fetches, transfer);
  auto shared = std::make_shared<Graph>(std::move(fitted.graph));
  return {std::move(shared), std::move(fitted)};
}

std::vector<double> costs_by(const Graph& graph, const std::string& by) {
  if (by == "auto") return costs_of(graph, CountedBy::graph);
  if (by == "bytes") return costs_of(graph, CountedBy::bytes);
  if (by == "flops") return costs_of(graph, CountedBy::flops);
  throw py::value_error("cost must be one of auto, bytes, flops, got " + quoted(by));
}

std::vector<std::string> again_by_name(const Graph& graph) {
  std::vector<std::string> names;
  for (const Again again : again_of(graph)) names.emplace_back(kAgain[static_cast<std::size_t>(again)]);
  return names;
}

FittedPlan solve_fit_by(const std::shared_ptr<Graph>& graph, const std::vector<double>& cost,
                        const std::vector<std::string>& again, const StorageOptions& storage, const Asked& asked,
                        bool recompute, std::optional<double> transfer, bool reorder,
                        const std::optional<AsItIs>& as_it_is) {
  Call call(asked);
  const std::vector<OpFacts> facts = facts_of(cost, again);
  const std::optional<Bytes> capacity = call.options.capacity;
  const FitOptions options{call.options, capacity.value_or(0), recompute, transfer};
  auto [fitted, interrupted] = searched(call.watch, [&] {
    return (capacity ? solve_fit : solve_fit_least)(graph, facts, storage, options, reorder, call.planner(), as_it_is);
  });
  fitted.found.plan.interrupted |= interrupted;
  return std::move(fitted);
}

}  // namespace

void bind_fit(py::module_& m) {
  py::class_<Change>(m, "FitChange", "A tensor that comes back before an op; see memplan/fit.hpp.")
      .def_readonly("tensors", &Change::tensors)
      .def_readonly("ops", &Change::ops)
      .def_readonly("after", &Change::after)
      .def_readonly("before", &Change::before)
      .def_readonly("bytes", &Change::bytes)
      .def_readonly("cost", &Change::cost)
      .def_readonly("moved", &Change::moved);
  py::class_<FittedGraph>(m, "Fitted", "A graph whose load is within a capacity; see memplan/fit.hpp.")
      .def_readonly("graph", &FittedGraph::graph)
      .def_property_readonly("changes", [](const FittedGraph& f) { return f.rest.changes; })
      .def_property_readonly("load", [](const FittedGraph& f) { return f.rest.load; })
      .def_property_readonly("added_cost", [](const FittedGraph& f) { return f.rest.added_cost; })
      .def_property_readonly("cost_bound", [](const FittedGraph& f) { return f.rest.cost_bound; })
      .def_property_readonly("load_bound", [](const FittedGraph& f) { return f.rest.load_bound; })
      .def_property_readonly("interrupted", [](const FittedGraph& f) { return f.rest.interrupted; });
  m.def("fit_graph", &fit_graph, py::arg("graph"), py::arg("cost"), py::arg("again"), py::arg("storage"),
        py::arg("capacity"), py::arg("recompute") = true, py::arg("transfer") = py::none(),
        py::arg("work") = FitOptions().work, py::arg("states") = FitOptions().states,
        py::arg("time_limit") = py::none(), py::arg("interruptible") = false,
        "The graph within the capacity, or of as little load as is reached where that is None.");
  m.def("rerun_graph", &rerun_graph, py::arg("graph"), py::arg("cost"), py::arg("again"), py::arg("storage"),
        py::arg("reruns"), py::arg("fetches") = std::vector<std::pair<Index, Index>>(), py::arg("transfer") = 0.0,
        "The graph with ops that run again: pairs of the op that follows, and the op, by position. And with tensors "
        "that are moved out, and fetched: pairs of the op that follows, and the tensor, by position.");
  py::class_<AsItIs>(m, "AsItIs", "A graph as it is planned where nothing is given up, and the options of that plan.")
      .def(py::init([](const std::shared_ptr<Graph>& graph, const StorageOptions& storage) {
             return AsItIs{graph, storage};
           }),
           py::arg("graph"), py::arg("storage"));
  py::class_<FittedPlan>(m, "FittedPlan", "A plan of a graph that was made to fit; see memplan/solve_fit.hpp.")
      .def_property_readonly("graph", [](const FittedPlan& f) { return std::const_pointer_cast<Graph>(f.graph); })
      .def_property_readonly("buffers", [](const FittedPlan& f) { return f.found.buffers; })
      .def_property_readonly("plan", [](const FittedPlan& f) { return f.found.plan; })
      .def_readonly("changes", &FittedPlan::changes)
      .def_readonly("reordered", &FittedPlan::reordered)
      .def_readonly("added_cost", &FittedPlan::added_cost)
      .def_readonly("cost_bound", &FittedPlan::cost_bound)
      .def_readonly("load_bound", &FittedPlan::load_bound)
      .def_readonly("as_it_is", &FittedPlan::as_it_is);
  m.def("solve_fit", &solve_fit_by, py::arg("graph"), py::arg("cost"), py::arg("again"), py::arg("storage"),
        py::arg("options"), py::arg("recompute"), py::arg("transfer"), py::arg("reorder"),
        py::arg("as_it_is") = py::none(),
        "A plan within the capacity, or of as little as is reached where that is None. `as_it_is`: the graph as it is "
        "planned where nothing is given up, and its options; by default, this graph with these.");
  m.def("op_costs", &costs_by, py::arg("graph"), py::arg("by"), "What ops cost: by auto, bytes or flops.");
  m.def("again_of", &again_by_name, py::arg("graph"), "What running each op again does: same, changes or never.");
  m.def(
      "op_names",
      [](const Graph& graph) {
        std::vector<std::string> names;
        for (const Op& op : graph.ops()) names.push_back(op.name);
        return names;
      },
      py::arg("graph"), "The names of the ops, in their order.");
  m.def(
      "says_costs",
      [](const Graph& graph) {
        return std::any_of(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.cost.has_value(); });
      },
      py::arg("graph"), "Whether the graph says what some op costs.");
}

}  // namespace memplan::bindings
