// Branches: ops that run, and buffers that exist, only if a switch takes one of its branches. Each has a path:
//
//     ""                        in every run
//     "if1/then"                if the switch if1 takes its branch then
//     "if1/then/if2/else"       if also the switch if2, inside of this branch, takes its branch else
//
// Two paths are *exclusive* if they are in different branches of one switch. No run has both.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// The fault of a path; empty if there is none.
std::string wrong_branch(std::string_view path);

// The longest path that contains both paths. If ops in two branches make a buffer, the buffer exists in this path.
std::string common_branch(std::string_view a, std::string_view b);

class Branches {
 public:
  // wrong_branch() must be empty for each path.
  explicit Branches(std::vector<std::string> paths);

  const std::vector<std::string>& paths() const { return paths_; }

  // Whether some run has both.
  bool coexist(Index a, Index b) const { return !exclusive(node_of_[at(a)], node_of_[at(b)]); }
  // Whether every run with b also has a.
  bool covers(Index a, Index b) const;

  // A node is a branch. The first node stands for no branch. A branch comes after the branch that contains it.
  Index node_of(Index i) const { return node_of_[at(i)]; }
  std::size_t nodes() const { return node_.size(); }

  // The nodes of the run with the most bytes. `bytes` has the bytes of each node.
  std::vector<bool> heaviest_run(std::span<const Bytes> bytes) const;

  bool operator==(const Branches& other) const { return paths_ == other.paths_; }

 private:
  struct Node {
    Index parent;
    Index depth;
    Index at;                          // the switch that it is a branch of
    std::vector<Index> switches = {};  // inside of it
  };

  bool exclusive(Index a, Index b) const;
  Index parent(Index node) const { return node_[memplan::at(node)].parent; }
  // Per node, the bytes of the heaviest run in it. Per switch, the heaviest branch.
  void weigh(std::span<const Bytes> bytes, std::vector<Bytes>& of_node, std::vector<Index>& of_switch) const;

  std::vector<std::string> paths_;
  std::vector<Index> node_of_;
  std::vector<Node> node_;
  Index switches_ = 0;
};

}  // namespace memplan
