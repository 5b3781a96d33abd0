// Solve split: changes a graph so that it fits a capacity, with ops in pieces (split.hpp), and makes a verified plan.
//
//     graph ─┬─▶ planner ─▶ it fits as it is, or:
//            ├─▶ fit ────────────────────────┐
//            └─▶ regions in pieces ─▶ fit ───┴─▶ the least added cost (among equals: in pieces) ─▶ plan
//
// If pieces are not enough, fit() changes the split graph: ops run again, or tensors are moved (fit.hpp).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/solve_fit.hpp"
#include "memplan/split.hpp"

namespace memplan {

struct SplitOptions : Limits {
  std::optional<Bytes> capacity = {};  // no value: the least load that is found
  double call = 0;                     // the cost of a call of a kernel
  double byte = 0;                     // the cost of each byte of inputs that every piece reads whole, such as weights
  Index max_pieces = 1024;             // of a region
  bool again = false;                  // rows that later pieces read may be made again instead of kept
  std::int64_t work = 3'000'000;       // of the search, in ops of graphs
};

// A region that runs in pieces.
struct SplitChange {
  std::vector<std::string> ops;
  std::vector<Index> loops;          // per op: a position in its loops
  std::vector<std::string> tensors;  // that are never whole
  Index pieces = 0;
  Bytes bytes = 0;  // the sum of the whole sizes of `tensors`
  Bytes kept = 0;   // bytes of rows that are moved within their buffers
  double cost = 0;
  std::vector<std::string> again;   // ops that make rows again, and do not keep them
  std::vector<std::string> reruns;  // ops that several passes run
  // Tensors that leave the region, and those over which they are written.
  std::vector<std::pair<std::string, std::string>> over;
  std::vector<std::string> blocks;  // tensors that leave the region, and stay in blocks

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

// Splits regions until the load is within the capacity, or nothing more is found. If the load is already within the
// capacity, the graph is not changed. Throws the errors of split().
FoundSplit find_split(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                      const SplitOptions& options);

// A lower bound of the load. It holds however ops are split, ordered and run again. While an op runs one iteration of a
// loop, the rows that this iteration reads and writes are alive together. For an op and a loop, the needed iteration
// with the most bytes counts. For an op, the loop with the fewest bytes counts. Ops without loops count whole.
// Workspaces do not count.
Bytes split_floor(const Graph& graph, const StorageOptions& storage);

struct SplitPlan {
  FittedPlan fitted;  // `load_bound` is split_floor(); nothing is proven about the cost, so `cost_bound` is 0
  std::vector<SplitChange> splits;
  std::shared_ptr<const Graph> whole;  // the graph before the split, in its order then; nullptr if nothing was split
  std::shared_ptr<const Graph> split;  // after the split, before fit() added ops
  std::vector<Piece> pieces;           // per op of `split`
};

// Returns a plan within the capacity of `split`, or the lowest plan that is found, at the least added cost that is
// found. If `others` is true, `fit` may change the graph too. `as_it_is` and errors are as in solve_fit().
SplitPlan solve_split(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                      const StorageOptions& storage, const FitOptions& fit, const SplitOptions& split, bool others,
                      bool reorder, const ChosenPlanner& planner = choose_planner("auto"),
                      const std::optional<AsItIs>& as_it_is = std::nullopt);

}  // namespace memplan
