// Branches: what runs, or exists, only if a switch takes one of its branches. A path says it:
//
//     ""                        in every run
//     "if1/then"                where the switch if1 takes its branch then
//     "if1/then/if2/else"       where also the switch if2, inside of that branch, takes its branch else
//
// Two paths are exclusive if they are in different branches of one switch: no run has both.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// What is wrong with a path; empty if nothing is wrong.
std::string wrong_branch(std::string_view path);

// The longest path that both are in: where something exists that ops in either of two branches make.
std::string common_branch(std::string_view a, std::string_view b);

class Branches {
 public:
  // Paths that are right.
  explicit Branches(std::vector<std::string> paths);

  const std::vector<std::string>& paths() const { return paths_; }

  // Whether some run has both.
  bool coexist(Index a, Index b) const { return !exclusive(node_of_[at(a)], node_of_[at(b)]); }
  // Whether every run that has b has a too.
  bool covers(Index a, Index b) const;

  // A node is a branch; the first node is what is in no branch. Branches inside of others come after them.
  Index node_of(Index i) const { return node_of_[at(i)]; }
  std::size_t nodes() const { return node_.size(); }

  // Which nodes the run has that has the most bytes, of bytes per node.
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
  // Per node, what the heaviest run in it has; per switch, its heaviest branch.
  void weigh(std::span<const Bytes> bytes, std::vector<Bytes>& of_node, std::vector<Index>& of_switch) const;

  std::vector<std::string> paths_;
  std::vector<Index> node_of_;
  std::vector<Node> node_;
  Index switches_ = 0;
};

}  // namespace memplan
