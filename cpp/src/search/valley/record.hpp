// Record: the tree of one run of the valley search, for whoever wants to check that nothing was left out (refute.hpp).
//
//     0 ─┬─ item 3 placed at 0 ─┬─ item 1 placed at 64: dead at section 2
//        │                      └─ nothing below 128 …         parents come before their children
//        └─ nothing below 32: dead at section 0
#pragma once

#include <cstddef>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

class Record {
 public:
  struct Node {
    Index parent;   // kNone: the root
    Index item;     // it is placed at the height; kNone: what covers the section of the parent lies there or higher
    Bytes height;   // 0 at the root
    Index section;  // branched on; without children, where the state is dead
  };

  // A run starts; where it is dead at once, `section` says so.
  void start(Index section) {
    nodes_.assign(1, {kNone, kNone, 0, section});
    here_ = 0;
  }
  // The search is at a node, branches on a section there, and goes on to a child.
  Index here() const { return here_; }
  void back_to(Index node) { here_ = node; }
  void branch(Index section) { nodes_[at(here_)].section = section; }
  void enter(Index item, Bytes height, Index section) {
    add(item, height, section);
    here_ = static_cast<Index>(nodes_.size()) - 1;
  }
  // A child of where the search is, which it need not enter when it is dead.
  void add(Index item, Bytes height, Index section) { nodes_.push_back({here_, item, height, section}); }

  // Runs are left where it is.
  bool is_full() const { return nodes_.size() >= kMost; }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  static constexpr std::size_t kMost = 1'000'000;

  std::vector<Node> nodes_;
  Index here_ = 0;
};

}  // namespace memplan
