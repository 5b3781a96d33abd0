// SplitSearch: which regions to split, and into how many pieces, so that the load is within a capacity.
//
// Every op of the graph has a need: the most bytes that are alive while it, or one of its pieces, runs. The search looks
// at the op whose need is highest above the capacity. It grows regions (growth.hpp) from that op, and from the ops that
// make or read what is alive there; for each region on the way, it splits the graph and counts. It takes the region
// that leaves the least bytes above the capacity, over all ops, and goes on.
//
//     need  ▲    █                     ▲                     regions that are taken stay, unless a later one
//  capacity ├──█─█─█──────────         ├──────█───────────   takes in one of their ops
//           │▄▆█▆█▆█▆▄                 │▄▆▅▅▅▅█▆▄
//           └──────────▶ op            └──────────▶ op
//
// It is a descent without a guarantee: what it does not reach may be possible. Same input, same result, unless the time
// limit or `stop` ends it.
// Complexity: each region that is looked at takes a split of the graph and its buffers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/split.hpp"
#include "memplan/storage.hpp"
#include "split/growth.hpp"

namespace memplan {

// Regions, and what the graph needs with them.
struct SplitState {
  std::vector<Region> regions;
  std::shared_ptr<const SplitGraph> split;
  std::vector<Bytes> needs;                 // per op of the graph
  std::vector<std::vector<Index>> at_most;  // per op: tensors of the graph that are alive at its need, largest first
  Bytes load = 0;
};

class SplitSearch {
 public:
  SplitSearch(const Graph& graph, const StorageOptions& storage, Index max_pieces, std::int64_t work,
              const Deadline& deadline);

  // The graph as it is.
  SplitState whole() const;
  // Goes on from a state until the load is within the capacity, or nothing more is found.
  SplitState descend(SplitState state, Bytes capacity);
  // Without the regions that are not needed for this load, and the others in as few pieces as suffice for it.
  SplitState with_less(SplitState state, Bytes enough);
  bool ended() const { return work_ <= 0 || deadline_.passed(); }

 private:
  std::optional<SplitState> with(const SplitState& state, const Region& region);
  std::optional<SplitState> stated(std::vector<Region> regions);
  std::optional<SplitState> better(const SplitState& state, Index op, Bytes capacity);
  std::optional<SplitState> in_best_pieces(const SplitState& state, const Region& region, Bytes capacity);
  std::optional<SplitState> cut(const SplitState& state, const Region& region, Bytes capacity);
  std::vector<Index> piece_counts(const Region& region) const;
  std::vector<Index> seeds(const SplitState& state, Index op) const;

  const Graph& graph_;
  const StorageOptions& storage_;
  Index max_pieces_;
  std::int64_t work_;  // that is left
  std::int64_t given_;
  const Deadline& deadline_;
  Links links_;
};

}  // namespace memplan
