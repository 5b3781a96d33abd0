#include <optional>

#include "bindings.hpp"
#include "memplan/refute.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using NodeTuple = std::tuple<Index, Index, Bytes, Step>;

std::optional<std::vector<NodeTuple>> refute_problem(const Problem& problem, Bytes capacity, std::int64_t work) {
  const py::none nobody;
  Watch watch(nobody, true);
  PlanOptions options;
  options.stop = [&] { return watch.stop(); };
  const auto nodes = [&] {
    const py::gil_scoped_release release;
    return refute(problem, capacity, work, options);
  }();
  if (watch.interrupted(true)) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  if (!nodes) return std::nullopt;
  std::vector<NodeTuple> tuples;
  tuples.reserve(nodes->size());
  for (const RefutationNode& node : *nodes) tuples.emplace_back(node.parent, node.buffer, node.height, node.step);
  return tuples;
}

}  // namespace

void bind_refute(py::module_& m) {
  m.def("refute", &refute_problem, py::arg("problem"), py::arg("capacity"), py::arg("work"),
        "The nodes (parent, buffer, height, step) of a proof that no plan fits, -1 for none; or None. The GIL is\n"
        "released; Ctrl-C ends the search.");
}

}  // namespace memplan::bindings
