#include <memory>

#include "bindings.hpp"
#include "memplan/errors.hpp"
#include "memplan/fit.hpp"
#include "memplan/infeasible.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

Again again_of(const std::string& name) {
  if (name == "same") return Again::same;
  if (name == "changes") return Again::changes;
  if (name == "never") return Again::never;
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

template <class Way>
FittedGraph fitted_by(Way way, const Graph& graph, const std::vector<double>& cost,
                      const std::vector<std::string>& again, const StorageOptions& storage, FitOptions options,
                      bool interruptible) {
  Watch watch(py::none(), interruptible);
  if (watch.can_stop()) options.stop = [&] { return watch.stop(); };
  const std::vector<OpFacts> facts = facts_of(cost, again);
  Fitted fitted = [&] {
    try {
      const py::gil_scoped_release release;
      return way(graph, facts, storage, options);
    } catch (const InfeasibleError& error) {  // whoever interrupts before there is a schedule gets none
      if (watch.interrupted(true) && error.lower_bound <= error.capacity) throw InterruptedError("asked to end");
      throw;
    }
  }();
  fitted.interrupted = watch.interrupted(true);  // and not where only the time was over
  auto shared = std::make_shared<Graph>(std::move(fitted.graph));
  return {std::move(shared), std::move(fitted)};
}

FittedGraph fit_graph(const Graph& graph, const std::vector<double>& cost, const std::vector<std::string>& again,
                      const StorageOptions& storage, Bytes capacity, bool recompute, std::optional<double> transfer,
                      std::int64_t work, std::size_t states, std::optional<double> time_limit, bool interruptible) {
  return fitted_by(fit, graph, cost, again, storage, {capacity, recompute, transfer, work, states, time_limit, {}},
                   interruptible);
}

FittedGraph fit_least_graph(const Graph& graph, const std::vector<double>& cost, const std::vector<std::string>& again,
                            const StorageOptions& storage, bool recompute, std::optional<double> transfer,
                            std::int64_t work, std::size_t states, std::optional<double> time_limit,
                            bool interruptible) {
  return fitted_by(fit_least, graph, cost, again, storage, {0, recompute, transfer, work, states, time_limit, {}},
                   interruptible);
}

FittedGraph rerun_graph(const Graph& graph, const std::vector<double>& cost, const std::vector<std::string>& again,
                        const StorageOptions& storage, const std::vector<std::pair<Index, Index>>& reruns,
                        const std::vector<std::pair<Index, Index>>& fetches, double transfer) {
  Fitted fitted = with_reruns(graph, facts_of(cost, again), storage, reruns, fetches, transfer);
  auto shared = std::make_shared<Graph>(std::move(fitted.graph));
  return {std::move(shared), std::move(fitted)};
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
        py::arg("time_limit") = py::none(), py::arg("interruptible") = false);
  m.def("fit_least_graph", &fit_least_graph, py::arg("graph"), py::arg("cost"), py::arg("again"), py::arg("storage"),
        py::arg("recompute") = true, py::arg("transfer") = py::none(), py::arg("work") = FitOptions().work,
        py::arg("states") = FitOptions().states, py::arg("time_limit") = py::none(), py::arg("interruptible") = false);
  m.def("rerun_graph", &rerun_graph, py::arg("graph"), py::arg("cost"), py::arg("again"), py::arg("storage"),
        py::arg("reruns"), py::arg("fetches") = std::vector<std::pair<Index, Index>>(), py::arg("transfer") = 0.0,
        "The graph with ops that run again: pairs of the op that follows, and the op, by position. And with tensors "
        "that are moved out, and fetched: pairs of the op that follows, and the tensor, by position.");
}

}  // namespace memplan::bindings
