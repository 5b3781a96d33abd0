#include <memory>
#include <utility>

#include "asked.hpp"
#include "memplan/ranges.hpp"

namespace memplan::bindings {

namespace {

using SizedRow = std::pair<std::string, std::shared_ptr<Graph>>;

SizedGraph sized(const SizedRow& row) { return {row.first, row.second}; }

RangePlan solve_range_of(const std::vector<SizedRow>& rows, const std::string& order, const StorageOptions& storage,
                         const Asked& asked) {
  Call call(asked);
  const ChosenOrder by = choose_order(order);
  std::vector<SizedGraph> graphs;
  for (const SizedRow& row : rows) graphs.push_back(sized(row));
  return solved(call.watch,
                [&] { return solve_range(graphs, by, call.planner(), storage, call.options, call.on_order()); });
}

// Graph, buffers and plan; bytes used with the offsets of the range; the position of the sizes whose order it has.
using SizeTuple = std::tuple<std::shared_ptr<Graph>, Buffers, Plan, Bytes, std::size_t>;

SizeTuple at_size_of(const RangePlan& range, const SizedRow& row) {
  SizePlan found = [&] {
    const py::gil_scoped_release release;
    return at_size(range, sized(row));
  }();
  return {std::const_pointer_cast<Graph>(found.graph), std::move(found.found.buffers), std::move(found.found.plan),
          found.fixed, found.like};
}

}  // namespace

void bind_ranges(py::module_& m) {
  py::class_<RangePlan>(m, "RangePlan", "One plan of a network at several sizes; see memplan/ranges.hpp.")
      .def_property_readonly(
          "graph", [](const RangePlan& r) { return std::const_pointer_cast<Graph>(r.largest.graph); },
          "Of the largest sizes, in the order of the plan.")
      .def_property_readonly("buffers", [](const RangePlan& r) { return r.found.buffers; })
      .def_property_readonly("plan", [](const RangePlan& r) { return r.found.plan; })
      .def_readonly("order_bound", &RangePlan::order_bound, "Of all orders.");
  m.def("solve_range", &solve_range_of, py::arg("graphs"), py::arg("order"), py::arg("storage"), py::arg("options"),
        "One plan of a network at several sizes, the largest last: rows (sizes, graph). Verified.");
  m.def("at_size", &at_size_of, py::arg("range"), py::arg("graph"),
        "The plan at one size: graph, buffers, plan; bytes used with the offsets of the range; the position of the\n"
        "sizes whose order of buffers it has. Verified.");
  m.def(
      "require_alike", [](const SizedRow& one, const SizedRow& other) { require_alike(sized(one), sized(other)); },
      py::arg("one"), py::arg("other"), "Raises UnsupportedError unless both have the same ops, tensors and views.");
}

}  // namespace memplan::bindings
