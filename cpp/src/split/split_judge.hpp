// SplitJudge: the bytes that a graph needs with some regions in pieces, and the cost. Answers are remembered.
//
//     regions ──▶ split graph ──▶ buffers ──▶ bytes at each step ──▶ per op of the graph, its need
//
// Complexity: the first time, a split of the graph and its buffers; then the size of the regions.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "memplan/split.hpp"
#include "memplan/storage.hpp"
#include "split/growth.hpp"

namespace memplan {

// The costs of ops and pieces.
struct SplitTerms {
  const std::vector<OpFacts>& facts;
  double call = 0;  // of a kernel
  double byte = 0;  // that each piece reads
  Index max_pieces = 1024;
};

struct Judged {
  std::vector<Bytes> needs;  // per op of the graph: the most bytes that are alive while it, or a piece of it, runs
  Bytes load = 0;
  double cost = 0;      // that is added
  Index ops = 0;        // of the split graph
  bool reruns = false;  // ops run in several passes of a region

  // Bytes above a capacity, of all ops together.
  Bytes above(Bytes capacity) const;
};

// Regions, and the needs of the graph with them.
struct SplitState {
  std::vector<Region> regions;  // by their first op
  Judged judged;
  std::shared_ptr<const SplitGraph> split;
  std::vector<std::vector<Index>> at_most;  // per op: tensors of the graph that are alive at its need, largest first
};

class SplitJudge {
 public:
  // `work`: ops of graphs that it may look at.
  SplitJudge(const Graph& graph, const StorageOptions& storage, const SplitTerms& terms, std::int64_t work);

  // nullptr for regions that cannot run in pieces. The pointer stays valid.
  const Judged* judged(const std::vector<Region>& regions);
  // The same in full, for regions that can run in pieces.
  SplitState stated(const std::vector<Region>& regions);
  std::int64_t work_left() const { return work_; }
  void give_at_least(std::int64_t work);

  const Links& links() const { return links_; }

 private:
  struct Made;
  Made make(const std::vector<Region>& regions, bool named);

  const Graph& graph_;
  const StorageOptions& storage_;
  SplitTerms terms_;
  double cost_;  // of the graph as it is
  std::int64_t work_;
  Links links_;
  std::map<std::vector<std::int64_t>, std::optional<Judged>> known_;
};

}  // namespace memplan
