#include <memory>

#include "bindings.hpp"
#include "chosen.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/solve_split.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using RegionRow = std::pair<std::vector<std::tuple<Index, Index, bool>>, Index>;

std::vector<Region> regions_of(const std::vector<RegionRow>& rows) {
  std::vector<Region> regions;
  for (const auto& [ops, pieces] : rows) {
    Region region{{}, pieces};
    for (const auto& [op, loop, again] : ops) region.ops.push_back({op, loop, again});
    regions.push_back(std::move(region));
  }
  return regions;
}

// (tensor, None) if it is read or written whole, else (tensor, (first axis, last axis, begin, end, base)).
py::object held_of(const HeldRows& held) {
  if (held.whole) return py::make_tuple(held.tensor, py::none());
  return py::make_tuple(held.tensor,
                        py::make_tuple(held.axes.first, held.axes.last, held.rows.begin, held.rows.end, held.base));
}

py::list helds_of(const std::vector<HeldRows>& helds) {
  py::list list;
  for (const HeldRows& held : helds) list.append(held_of(held));
  return list;
}

std::string does_of(const Piece& piece) {
  switch (piece.does) {
    case Piece::Does::whole: return "whole";
    case Piece::Does::part: return "part";
    case Piece::Does::early: return "early";
    case Piece::Does::keep: return "keep";
  }
  return {};
}

std::vector<OpFacts> facts_by(const Graph& graph, const std::vector<double>& cost) {
  std::vector<OpFacts> facts;
  const std::vector<Again> again = again_of(graph);
  for (std::size_t k = 0; k < again.size(); ++k) facts.push_back({cost[k], again[k]});
  return facts;
}

SplitPlan solve_split_by(const std::shared_ptr<Graph>& graph, const std::vector<double>& cost,
                         const StorageOptions& storage, std::optional<Bytes> capacity, bool recompute,
                         std::optional<double> transfer, bool reorder, double call, Index max_pieces,
                         const std::string& planner, const InPython& in_python, std::optional<double> time_limit) {
  const py::object nobody = py::none();
  Watch watch(nobody, true);
  const Chosen chosen(planner, in_python, watch);
  const std::vector<OpFacts> facts = facts_by(*graph, cost);
  FitOptions options;
  options.recompute = recompute;
  options.transfer = transfer;
  SplitOptions split;
  split.capacity = capacity;
  split.call = call;
  split.max_pieces = max_pieces;
  split.time_limit = time_limit;
  if (watch.can_stop()) split.stop = options.stop = [&] { return watch.stop(); };
  try {
    SplitPlan found = [&] {
      const py::gil_scoped_release release;
      return solve_split(graph, facts, storage, options, split, recompute || transfer, reorder, chosen.planner());
    }();
    found.fitted.found.plan.interrupted |= watch.interrupted(true);
    return found;
  } catch (const InfeasibleError& error) {  // whoever interrupts before there is a plan gets none
    if (watch.interrupted(true) && !error.proven()) throw InterruptedError("asked to end");
    throw;
  } catch (const EndedError&) {
    watch.interrupted(false);  // raises what a handler of signals has raised
    throw;
  }
}

}  // namespace

void bind_split(py::module_& m) {
  struct Split {
    std::shared_ptr<const Graph> graph;
    std::vector<Piece> pieces;
    Bytes kept_bytes;
  };
  py::class_<Piece>(
      m, "Piece",
      "What an op of a split graph does: 'whole', 'part', 'early' or 'keep'. `of` is an op of the graph.\n"
      "Reads and writes are (tensor of the split graph, None or (first axis, last axis, begin, end, base)).")
      .def_property_readonly("does", &does_of)
      .def_readonly("of", &Piece::of)
      .def_readonly("loop", &Piece::loop)
      .def_property_readonly("iterations",
                             [](const Piece& p) { return std::pair(p.iterations.begin, p.iterations.end); })
      .def_property_readonly("reads", [](const Piece& p) { return helds_of(p.reads); })
      .def_property_readonly("writes", [](const Piece& p) { return helds_of(p.writes); });
  py::class_<Split>(m, "SplitGraph", "A graph with ops in pieces, and what each of its ops does.")
      .def_property_readonly("graph", [](const Split& s) { return std::const_pointer_cast<Graph>(s.graph); })
      .def_readonly("pieces", &Split::pieces)
      .def_readonly("kept_bytes", &Split::kept_bytes);
  m.def(
      "split",
      [](const Graph& graph, const std::vector<RegionRow>& rows) {
        SplitGraph found = split(graph, regions_of(rows));
        return Split{std::make_shared<const Graph>(std::move(found.graph)), std::move(found.pieces), found.kept_bytes};
      },
      py::arg("graph"), py::arg("regions"),
      "The graph with the ops of each region in pieces. A region is ([(op, loop, again), ...], pieces).");
  py::class_<SplitChange>(m, "SplitChange", "A region of ops that runs in pieces; see memplan/solve_split.hpp.")
      .def_readonly("ops", &SplitChange::ops)
      .def_readonly("tensors", &SplitChange::tensors)
      .def_readonly("pieces", &SplitChange::pieces)
      .def_readonly("bytes", &SplitChange::bytes)
      .def_readonly("kept", &SplitChange::kept)
      .def_readonly("cost", &SplitChange::cost);
  py::class_<SplitPlan>(m, "SplitPlan", "A plan of a graph with ops in pieces; see memplan/solve_split.hpp.")
      .def_property_readonly("fitted", [](const SplitPlan& f) { return f.fitted; })
      .def_readonly("splits", &SplitPlan::splits)
      .def_readonly("pieces", &SplitPlan::pieces);
  m.def("solve_split", &solve_split_by, py::arg("graph"), py::arg("cost"), py::arg("storage"), py::arg("capacity"),
        py::arg("recompute"), py::arg("transfer"), py::arg("reorder"), py::arg("call"), py::arg("max_pieces"),
        py::arg("planner"), py::arg("in_python"), py::arg("time_limit"),
        "A plan within the capacity, or as low as is found where that is None, with ops in pieces.");
  m.def("split_floor", &split_floor, py::arg("graph"), py::arg("storage"),
        "A bound of the load, however ops are split, ordered and run again.");
}

}  // namespace memplan::bindings
