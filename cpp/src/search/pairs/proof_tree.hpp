// ProofTree: the tree of one run of the search on pairs, for whoever wants to check that nothing was left out
// (refute.hpp).
//
//     0 ─┬─ buffer 3 lies at least 64 above buffer 1 ─┬─ …   parents come before their children; a node without
//        └─ buffer 1 lies at least 32 above buffer 3  └─ …   children is dead, by differences or by a clique
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "memplan/refute.hpp"

namespace memplan {

class ProofTree {
 public:
  // A run starts.
  void start() {
    nodes_.assign(1, {});
    here_ = 0;
  }
  // The search is at a node, and goes on to a child of a node.
  Index here() const { return here_; }
  void enter(Index parent, Index lower, Index upper, Bytes difference) {
    nodes_.push_back({parent, lower, upper, difference});
    here_ = static_cast<Index>(nodes_.size()) - 1;
  }
  // These members have too little room at the node where the search is.
  void overloaded(std::vector<CliqueMember> clique) { nodes_[at(here_)].clique = std::move(clique); }

  // Whether the tree has no room left; then runs are given up.
  bool is_full() const { return nodes_.size() >= kMost; }
  const std::vector<RefutationNode>& nodes() const { return nodes_; }

 private:
  static constexpr std::size_t kMost = 1'000'000;

  std::vector<RefutationNode> nodes_;
  Index here_ = 0;
};

}  // namespace memplan
