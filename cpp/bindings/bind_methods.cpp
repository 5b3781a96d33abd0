#include <memory>
#include <utility>
#include <variant>

#include "arrays.hpp"
#include "asked.hpp"
#include "memplan/crossings.hpp"
#include "memplan/methods.hpp"

namespace memplan::bindings {

namespace {

using GraphOrProblem = std::variant<std::shared_ptr<Graph>, Problem>;
using MethodRow = std::tuple<std::string, GraphOrProblem, std::optional<StorageOptions>, std::string>;
using StayingRow = std::pair<std::string, std::vector<std::vector<std::string>>>;

// All methods as one problem, its plan, each method, and what no arena for all of them is smaller than.
using MaybeGraph = std::optional<std::shared_ptr<Graph>>;
using MethodPlanTuple = std::tuple<MaybeGraph, Buffers, Plan, Bytes>;
using MethodsTuple = std::tuple<Problem, Plan, std::vector<MethodPlanTuple>, Bytes>;

MethodsTuple solve_methods_of(const std::vector<MethodRow>& rows, const std::vector<StayingRow>& shared,
                              const Asked& asked) {
  std::vector<Method> methods;
  for (const auto& [name, source, storage, order] : rows) {
    Method& method = methods.emplace_back(Method{name, {}, storage.value_or(StorageOptions()), order});
    if (const auto* graph = std::get_if<std::shared_ptr<Graph>>(&source))
      method.source = std::shared_ptr<const Graph>(*graph);
    else
      method.source = std::get<Problem>(source);
  }
  std::vector<Staying> staying;
  for (const auto& [name, tensors] : shared) staying.push_back({name, tensors});
  Call call(asked);
  MethodsPlan found = solved(call.watch, [&] { return solve_methods(methods, staying, call.planner(), call.options); });
  std::vector<MethodPlanTuple> plans;
  for (MethodPlan& method : found.methods)
    plans.emplace_back(
        method.graph == nullptr ? std::nullopt : MaybeGraph(std::const_pointer_cast<Graph>(method.graph)),
        std::move(method.buffers), std::move(method.plan), method.order_bound);
  return {std::move(found.problem), std::move(found.plan), std::move(plans), found.lower_bound};
}

// Name, graph and buffers or neither, problem, offsets.
using PlacedRow = std::tuple<std::string, MaybeGraph, std::optional<Buffers>, Problem, py::object>;
using PlacedStayingRow = std::tuple<std::string, Bytes, Bytes, std::vector<std::vector<std::string>>>;

std::vector<std::string> crossings_of(const std::vector<PlacedRow>& rows, const std::vector<PlacedStayingRow>& shared,
                                      Bytes peak) {
  std::vector<std::vector<Bytes>> columns;
  for (const PlacedRow& row : rows) {
    columns.push_back(int64_column(std::get<4>(row), "offsets"));
    require_one_per_buffer(std::get<3>(row), columns.back());
  }
  const py::gil_scoped_release release;
  std::vector<PlacedMethod> placed;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    const auto& [name, graph, buffers, problem, offsets] = rows[m];
    const bool of_graph = graph && buffers;
    placed.push_back({name, of_graph ? graph->get() : nullptr, {}, &problem, columns[m]});
    if (of_graph) placed.back().addresses = addresses_of(*buffers, columns[m]);
  }
  std::vector<PlacedStaying> staying;
  for (const auto& [name, bytes, offset, tensors] : shared) staying.push_back({name, bytes, offset, tensors});
  return crossings(placed, staying, peak);
}

}  // namespace

void bind_methods(py::module_& m) {
  m.def("solve_methods", &solve_methods_of, py::arg("methods"), py::arg("shared"), py::arg("options") = Asked(),
        "Plans methods, rows (name, graph or problem, storage options, order), in one arena, and verifies the result.\n"
        "Rows of `shared` are (name, per method its tensors there). All methods as one problem, its plan, per method\n"
        "the graph in the order of the plan, buffers, plan and bound of all orders, and what every arena needs. Of a\n"
        "problem, there is no graph, and the buffers have only that. Ctrl-C ends searches with what was found.");
  m.def("crossings", &crossings_of, py::arg("methods"), py::arg("shared"), py::arg("peak"),
        "What is wrong across methods, rows (name, graph, buffers, problem, offsets), in an arena of so many bytes:\n"
        "rows of `shared` are (name, bytes, offset, per method its tensors there).");
}

}  // namespace memplan::bindings
