// MaxFlow: the largest flow from a source to a sink, and so a least cut, by Dinic's algorithm (1970).
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "memplan/units.hpp"

namespace memplan {

class MaxFlow {
 public:
  static constexpr std::int64_t kInfinite = kMaxBytes / 4;
  static constexpr Index kSource = 0, kSink = 1;

  explicit MaxFlow(const Deadline& deadline) : deadline_(deadline) {}

  // The source and the sink alone, and no flow.
  void clear();

  Index node();
  Index add(Index from, Index to, std::int64_t capacity);  // an edge

  // Pushes until nothing is left to push, or `most` work was done. Whether the flow is the largest.
  bool grow(std::int64_t most);

  std::int64_t flow() const { return flow_; }
  std::int64_t flow_on(Index edge) const { return edges_[at(edge ^ 1)].capacity; }

  // Whether a node is on the source's side of a least cut: of these cuts, the one with the fewest nodes there.
  bool is_before_cut(Index node) const { return level_[at(node)] != kNone; }

  std::size_t edges() const { return edges_.size(); }
  std::int64_t work() const { return work_; }  // edges looked at, and what else was counted
  void count(std::size_t edges);

 private:
  struct Edge {
    Index to;
    Index next;  // of the same node
    std::int64_t capacity;
  };

  bool find_levels();
  std::int64_t push();

  const Deadline& deadline_;
  std::int64_t work_ = 0;
  std::int64_t flow_ = 0;
  std::vector<Index> first_;  // per node, its first edge; an edge's reverse is its number ^ 1
  std::vector<Edge> edges_;
  std::vector<Index> level_, next_, path_, queue_;
};

}  // namespace memplan
