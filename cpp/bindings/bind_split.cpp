#include <memory>
#include <variant>

#include "asked.hpp"
#include "memplan/solve_split.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using RegionOps = std::vector<std::tuple<Index, std::optional<Index>, bool>>;
using RegionRow = std::variant<std::pair<RegionOps, Index>, std::tuple<RegionOps, Index, bool>>;

std::vector<Region> regions_of(const std::vector<RegionRow>& rows) {
  std::vector<Region> regions;
  const auto add = [&](const RegionOps& ops, Index pieces, bool blocks = false) {
    Region region{{}, pieces, blocks};
    for (const auto& [op, loop, again] : ops) region.ops.push_back({op, loop.value_or(kNone), again});
    regions.push_back(std::move(region));
  };
  for (const RegionRow& row : rows) std::visit([&](const auto& one) { std::apply(add, one); }, row);
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
    case Piece::Does::statistics: return "statistics";
    case Piece::Does::early: return "early";
    case Piece::Does::keep: return "keep";
    case Piece::Does::gather: return "gather";
  }
  return {};
}

std::optional<Index> statistics_of(const Piece& piece) {
  return piece.statistics == kNone ? std::nullopt : std::optional(piece.statistics);
}

using HeldRow = std::tuple<Index, std::optional<std::tuple<Index, Index, std::int64_t, std::int64_t, std::int64_t>>>;

std::vector<HeldRows> helds_by(const std::vector<HeldRow>& rows) {
  std::vector<HeldRows> helds;
  for (const auto& [tensor, part] : rows) {
    helds.push_back({tensor});
    if (!part) continue;
    const auto& [first, last, begin, end, base] = *part;
    helds.back() = {tensor, false, {first, last}, {begin, end}, base};
  }
  return helds;
}

Piece piece_by(const std::string& does, Index of, Index loop, std::pair<std::int64_t, std::int64_t> iterations,
               const std::vector<HeldRow>& reads, const std::vector<HeldRow>& writes, std::optional<Index> statistics) {
  Piece piece{
      Piece::Does::whole,        of, loop, {iterations.first, iterations.second}, helds_by(reads), helds_by(writes),
      statistics.value_or(kNone)};
  for (const auto one : {Piece::Does::whole, Piece::Does::part, Piece::Does::statistics, Piece::Does::early,
                         Piece::Does::keep, Piece::Does::gather}) {
    piece.does = one;
    if (does_of(piece) == does) return piece;
  }
  throw py::value_error("does must be 'whole', 'part', 'statistics', 'early', 'keep' or 'gather', got '" + does + "'");
}

std::vector<OpFacts> facts_by(const Graph& graph, const std::vector<double>& cost) {
  std::vector<OpFacts> facts;
  const std::vector<Again> again = again_of(graph);
  for (std::size_t k = 0; k < again.size(); ++k) facts.push_back({cost[k], again[k]});
  return facts;
}

SplitPlan solve_split_by(const std::shared_ptr<Graph>& graph, const std::vector<double>& cost,
                         const StorageOptions& storage, const Asked& asked, bool recompute,
                         std::optional<double> transfer, bool reorder, double cost_of_call, double byte,
                         Index max_pieces, const std::optional<AsItIs>& as_it_is) {
  Call call(asked);
  const std::vector<OpFacts> facts = facts_by(*graph, cost);
  const FitOptions fit{call.options, 0, recompute, transfer};
  const SplitOptions split{call.options, call.options.capacity, cost_of_call, byte, max_pieces, recompute};
  auto [found, interrupted] = searched(call.watch, [&] {
    return solve_split(graph, facts, storage, fit, split, recompute || transfer, reorder, call.planner(), as_it_is);
  });
  found.fitted.found.plan.interrupted |= interrupted;
  return std::move(found);
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
      "What an op of a split graph does: 'whole', 'part', 'statistics', 'early', 'keep' or 'gather'. `of` is an op of "
      "the\n"
      "graph. Reads and writes are (tensor of the split graph, None or (first axis, last axis, begin, end, base)).\n"
      "statistics is the tensor of the split graph that they are in, read or made; None if there are none.")
      .def(py::init(&piece_by), py::arg("does"), py::arg("of"), py::arg("loop"), py::arg("iterations"),
           py::arg("reads"), py::arg("writes"), py::arg("statistics") = py::none())
      .def("__reduce__", made_again_by<Piece>([](const Piece& p) {
             return py::make_tuple(does_of(p), p.of, p.loop, std::pair(p.iterations.begin, p.iterations.end),
                                   helds_of(p.reads), helds_of(p.writes), statistics_of(p));
           }))
      .def_property_readonly("does", &does_of)
      .def_readonly("of", &Piece::of)
      .def_readonly("loop", &Piece::loop)
      .def_property_readonly("iterations",
                             [](const Piece& p) { return std::pair(p.iterations.begin, p.iterations.end); })
      .def_property_readonly("statistics", &statistics_of)
      .def_property_readonly("reads", [](const Piece& p) { return helds_of(p.reads); })
      .def_property_readonly("writes", [](const Piece& p) { return helds_of(p.writes); });
  py::class_<Split>(m, "SplitGraph", "A graph with ops in pieces, and what each of its ops does.")
      .def_property_readonly("graph", [](const Split& s) { return std::const_pointer_cast<Graph>(s.graph); })
      .def_readonly("pieces", &Split::pieces)
      .def_readonly("kept_bytes", &Split::kept_bytes);
  m.def(
      "split",
      [](const Graph& graph, const std::vector<RegionRow>& rows, const StorageOptions& storage) {
        SplitGraph found = split(graph, regions_of(rows), storage);
        return Split{std::make_shared<const Graph>(std::move(found.graph)), std::move(found.pieces), found.kept_bytes};
      },
      py::arg("graph"), py::arg("regions"), py::arg("storage") = StorageOptions{},
      "The graph with the ops of each region in pieces. A region is ([(op, loop, again), ...], pieces),\n"
      "and may have True behind them: what it makes for other regions stays in blocks.\n"
      "An op whose loop is None runs whole, between two passes.");
  py::class_<SplitChange>(m, "SplitChange", "A region of ops that runs in pieces; see memplan/solve_split.hpp.")
      .def_readonly("ops", &SplitChange::ops)
      .def_property_readonly("loops",
                             [](const SplitChange& c) {
                               std::vector<std::optional<Index>> loops;
                               for (const Index loop : c.loops)
                                 loops.push_back(loop == kNone ? std::nullopt : std::optional(loop));
                               return loops;
                             })
      .def_readonly("tensors", &SplitChange::tensors)
      .def_readonly("pieces", &SplitChange::pieces)
      .def_readonly("bytes", &SplitChange::bytes)
      .def_readonly("kept", &SplitChange::kept)
      .def_readonly("cost", &SplitChange::cost)
      .def_readonly("again", &SplitChange::again)
      .def_readonly("reruns", &SplitChange::reruns)
      .def_readonly("over", &SplitChange::over)
      .def_readonly("blocks", &SplitChange::blocks);
  py::class_<SplitPlan>(m, "SplitPlan", "A plan of a graph with ops in pieces; see memplan/solve_split.hpp.")
      .def_property_readonly("fitted", [](const SplitPlan& f) { return f.fitted; })
      .def_readonly("splits", &SplitPlan::splits)
      .def_property_readonly("whole", [](const SplitPlan& f) { return std::const_pointer_cast<Graph>(f.whole); })
      .def_property_readonly("split", [](const SplitPlan& f) { return std::const_pointer_cast<Graph>(f.split); })
      .def_readonly("pieces", &SplitPlan::pieces);
  py::class_<FoundSplit>(m, "FoundSplit", "A graph with ops in pieces, of as little load as was found.")
      .def_property_readonly("graph", [](const FoundSplit& f) { return std::const_pointer_cast<Graph>(f.graph); })
      .def_readonly("pieces", &FoundSplit::pieces)
      .def_readonly("changes", &FoundSplit::changes)
      .def_readonly("load", &FoundSplit::load)
      .def_readonly("added_cost", &FoundSplit::added_cost);
  m.def(
      "find_split",
      [](const Graph& graph, const std::vector<double>& cost, const StorageOptions& storage, Bytes capacity,
         std::int64_t work, double byte, Index max_pieces, bool again) {
        return interruptibly([&](const PlanOptions& plan) {
          SplitOptions options{plan, capacity, 0, byte, max_pieces, again};
          options.work = work;
          return find_split(graph, facts_by(graph, cost), storage, options);
        });
      },
      py::arg("graph"), py::arg("cost"), py::arg("storage"), py::arg("capacity"), py::arg("work"),
      py::arg("byte") = 0.0, py::arg("max_pieces") = 1024, py::arg("again") = false,
      "Ops in pieces, so that the load is within the capacity, or as low as so much work finds.");
  m.def("solve_split", &solve_split_by, py::arg("graph"), py::arg("cost"), py::arg("storage"), py::arg("options"),
        py::arg("recompute"), py::arg("transfer"), py::arg("reorder"), py::arg("call"), py::arg("byte"),
        py::arg("max_pieces"), py::arg("as_it_is") = py::none(),
        "A plan within the capacity, or as low as is found where that is None, with ops in pieces.");
  m.def("split_floor", &split_floor, py::arg("graph"), py::arg("storage"),
        "A bound of the load, however ops are split, ordered and run again.");
}

}  // namespace memplan::bindings
