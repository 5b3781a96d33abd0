// Solve split: from a graph and a capacity to a verified plan of the graph with ops in pieces (split.hpp).
//
//     graph ─┬─▶ planner ─▶ it fits as it is, or:
//            ├─▶ fit ────────────────────────┐
//            └─▶ regions in pieces ─▶ fit ───┴─▶ what adds least (among equals: in pieces) ─▶ plan
//
// Pieces that do not suffice are made to fit as any graph: ops run again, or tensors are moved (fit.hpp).
#pragma once

#include <memory>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/solve_fit.hpp"
#include "memplan/split.hpp"

namespace memplan {

struct SplitOptions : Limits {
  std::optional<Bytes> capacity = {};  // no value: as little as is found
  double call = 0;                     // the cost of a call of a kernel
  double byte = 0;                     // the cost of a byte that each piece reads, as it does weights
  Index max_pieces = 1024;             // of a region
  bool again = false;                  // whether rows that are read again may be made again, and not kept
  std::int64_t work = 3'000'000;       // of the search: ops of graphs that it looks at
};

// A region that runs in pieces.
struct SplitChange {
  std::vector<std::string> ops;
  std::vector<Index> loops;          // per op, among its loops
  std::vector<std::string> tensors;  // that are never whole
  Index pieces = 0;
  Bytes bytes = 0;  // of these tensors, whole
  Bytes kept = 0;   // rows that are moved within their buffers
  double cost = 0;
  std::vector<std::string> again;  // ops that make rows again

  friend bool operator==(const SplitChange&, const SplitChange&) = default;
};

struct FoundSplit {
  std::shared_ptr<const Graph> graph;
  std::vector<Piece> pieces;  // per op
  std::vector<OpFacts> facts;
  std::vector<SplitChange> changes;
  Bytes load = 0;
  double added_cost = 0;
};

// Splits regions until the load is within the capacity, or nothing more is found; the graph as it is, if it is within.
// Throws what split() throws for graphs that it does not take.
FoundSplit find_split(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                      const SplitOptions& options);

// A bound of the load, however ops are split, ordered and run again: while an op runs one iteration of a loop, the rows
// that this iteration reads and writes are there together. Of all iterations that make something that is needed, the one
// that needs most counts, along the loop that needs least. Ops without loops count whole. Scratch does not count.
Bytes split_floor(const Graph& graph, const StorageOptions& storage);

struct SplitPlan {
  FittedPlan fitted;  // `load_bound` is that of split_floor; nothing is proven of the cost, so `cost_bound` is 0
  std::vector<SplitChange> splits;
  std::shared_ptr<const Graph>
      whole;  // the graph that was split, in the order in which its ops were; none if it was not
  std::shared_ptr<const Graph> split;  // the same in pieces, before ops were added that run again, or moves
  std::vector<Piece> pieces;           // per op of `split`
};

// A plan within the capacity of `split`, or as low as is found, at the least added cost that is found. `others`: tensors
// may come back as the options of fit say. `as_it_is`, and what is thrown: as of solve_fit.
SplitPlan solve_split(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                      const StorageOptions& storage, const FitOptions& fit, const SplitOptions& split, bool others,
                      bool reorder, const ChosenPlanner& planner = choose_planner("auto"),
                      const std::optional<AsItIs>& as_it_is = std::nullopt);

}  // namespace memplan
