#include <memory>

#include "arrays.hpp"
#include "memplan/plan.hpp"
#include "memplan/replay.hpp"
#include "memplan/reuse.hpp"
#include "memplan/solve.hpp"
#include "memplan/verify.hpp"

namespace memplan::bindings {

namespace {

std::size_t limit_of(std::optional<std::size_t> limit) { return limit.value_or(kAllViolations); }

std::vector<Violation> verify_problem(const Problem& problem, py::handle offsets, std::optional<Bytes> capacity,
                                      std::optional<std::size_t> limit) {
  const std::vector<Bytes> values = int64_column(offsets, "offsets");
  py::gil_scoped_release release;
  return verify(problem, values, capacity.value_or(kMaxBytes), limit_of(limit));
}

std::vector<ReplayFault> replay_graph(const Graph& graph, const Buffers& buffers, py::handle offsets,
                                      std::optional<std::size_t> limit) {
  const std::vector<Bytes> values = int64_column(offsets, "offsets");
  require_one_per_buffer(buffers.problem, values);
  py::gil_scoped_release release;
  return replay_all(graph, buffers, values, limit_of(limit));
}

std::vector<ReplayFault> replay_places(const Graph& graph, py::handle tensors, py::handle regions,
                                       py::handle workspaces, std::vector<Index> donated,
                                       std::optional<std::size_t> limit) {
  Addresses addresses{int64_column(tensors, "tensors"), int64_column(workspaces, "workspaces")};
  for (const std::int64_t region : int64_column(regions, "regions"))
    addresses.region.push_back(static_cast<Index>(region));
  py::gil_scoped_release release;
  return replay_all(graph, addresses, std::move(donated), limit_of(limit));
}

}  // namespace

void bind_verify(py::module_& m) {
  py::class_<Violation>(m, "Violation", "One way in which a plan breaks its problem.")
      .def_property_readonly(
          "kind", [](const Violation& v) { return std::string(to_string(v.kind)); },
          "'overlap', 'misaligned', 'outside', 'moved' (from its pin) or 'reserved'.")
      .def_readonly("buffer", &Violation::buffer, "Position of the buffer.")
      .def_property_readonly(
          "other", [](const Violation& v) { return v.other == kNone ? std::nullopt : std::optional(v.other); },
          "Position of the second buffer of an overlap, or None.")
      .def_readonly("message", &Violation::message)
      .def("__repr__", [](const Violation& v) { return "<memplan.Violation: " + v.message + ">"; })
      .def("__str__", [](const Violation& v) { return v.message; });
  py::class_<ReplayFault>(m, "ReplayFault", "A step of a graph at which a plan has destroyed a value.")
      .def_readonly("op", &ReplayFault::op,
                    "Position of the op; the number of ops for what the caller gets at the end.")
      .def_property_readonly(
          "tensor", [](const ReplayFault& f) { return f.tensor == kNone ? std::nullopt : std::optional(f.tensor); },
          "Position of the tensor; None for a workspace.")
      .def_readonly("message", &ReplayFault::message)
      .def("__repr__", [](const ReplayFault& f) { return "<memplan.ReplayFault: " + f.message + ">"; })
      .def("__str__", [](const ReplayFault& f) { return f.message; });
  m.def("verify", &verify_problem, py::arg("problem"), py::arg("offsets"), py::arg("capacity") = py::none(),
        py::arg("limit") = py::none(),
        "All violations of offsets (int64, bytes) on a problem, at most `limit`; shares no code with planners.");
  m.def(
      "peak_of",
      [](const Problem& problem, py::handle offsets) { return peak_of(problem, int64_column(offsets, "offsets")); },
      py::arg("problem"), py::arg("offsets"), "The highest offset + size, in bytes.");
  m.def(
      "reused_by",
      [](const Problem& problem, py::handle offsets) {
        return adopt(reused_by(problem, int64_column(offsets, "offsets")));
      },
      py::arg("problem"), py::arg("offsets"),
      "Per buffer, the first other that takes over some of its bytes after it has used them (int32; -1 for none).");
  m.def(
      "reuse_edges",
      [](const Graph& graph, const Buffers& buffers, py::handle offsets) {
        const std::vector<Bytes> values = int64_column(offsets, "offsets");
        require_one_per_buffer(buffers.problem, values);
        std::vector<std::pair<Index, Index>> edges;
        for (const ReuseEdge& edge : reuse_edges(graph, addresses_of(buffers, values)))
          edges.emplace_back(edge.before, edge.after);
        return edges;
      },
      py::arg("graph"), py::arg("buffers"), py::arg("offsets"),
      "Pairs of ops (before, after) whose order the plan relies on and the graph does not imply, the fewest that\n"
      "imply the others.");
  m.def("replay", &replay_graph, py::arg("graph"), py::arg("buffers"), py::arg("offsets"),
        py::arg("limit") = py::none(),
        "All steps at which the planned graph would read destroyed bytes; shares no code with liveness.");
  m.def("replay_places", &replay_places, py::arg("graph"), py::arg("tensors"), py::arg("regions"),
        py::arg("workspaces"), py::arg("donated"), py::arg("limit") = py::none(),
        "The same for a plan that another tool made: offsets per tensor, each in the arena (region -1) or in a place\n"
        "outside that it shares with the tensors of its region, and per op (-1 where it has no workspace there).");
}

}  // namespace memplan::bindings
