// Groups: tensors in groups, each at a distance in bytes from the others of its group. A disjoint-set forest with
// distances: nearly O(1) a call.
#pragma once

#include <vector>

#include "memplan/units.hpp"

namespace memplan {

class Groups {
 public:
  // Every tensor in a group of its own.
  explicit Groups(std::size_t count);

  // The representative of t's group.
  Index find(Index t);

  // Where t begins, from where the group's representative does.
  Bytes position(Index t);

  // Joins two groups so that b begins `offset` bytes after a.
  void unite(Index a, Index b, Bytes offset);

 private:
  std::vector<Index> parent_;
  std::vector<Bytes> distance_;  // from the parent; 0 at a representative
  std::vector<Index> size_;      // of a representative's group
};

}  // namespace memplan
