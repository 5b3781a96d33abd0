#include <memory>

#include "bindings.hpp"
#include "memplan/split.hpp"

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
}

}  // namespace memplan::bindings
