// PairRecord: the tree of one run of the search on pairs, for whoever wants to check that nothing was left out
// (refute.hpp).
//
//     0 ─┬─ item 3 lies at least 64 above item 1 ─┬─ …      parents come before their children; a node without
//        └─ item 1 lies at least 32 above item 3  └─ …      children is dead, by differences or by a clique
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "memplan/clique.hpp"
#include "memplan/units.hpp"

namespace memplan {

class PairRecord {
 public:
  struct Node {
    Index parent;                        // kNone: the root
    Index lower, upper;                  // items; kNone at the root
    Bytes difference;                    // the offset of `upper` less that of `lower` is at least that
    std::vector<CliqueMember> clique{};  // buffers that have too little room here; else differences leave no plan
  };

  // A run starts.
  void start() {
    nodes_.assign(1, {kNone, kNone, kNone, 0});
    here_ = 0;
  }
  // The search is at a node, and goes on to a child of one.
  Index here() const { return here_; }
  void enter(Index parent, Index lower, Index upper, Bytes difference) {
    nodes_.push_back({parent, lower, upper, difference});
    here_ = static_cast<Index>(nodes_.size()) - 1;
  }
  // These have too little room where the search is.
  void overloaded(std::vector<CliqueMember> clique) { nodes_[at(here_)].clique = std::move(clique); }

  // Runs are left where it is.
  bool is_full() const { return nodes_.size() >= kMost; }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  static constexpr std::size_t kMost = 1'000'000;

  std::vector<Node> nodes_;
  Index here_ = 0;
};

}  // namespace memplan
