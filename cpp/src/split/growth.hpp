// Growth: a region that takes in, one after another, the largest tensors at its edge.
//
//     seed        {conv2}                     t1 and t2 are at the edge
//     grow()      {conv1, conv2}              t1 lies inside: who makes it and all who read it are in the region
//     grow()      {conv1, conv2, add, conv3}  t2 lies inside
//
// A tensor can lie inside if the op that makes it and all ops that read it have loops along the same axes of it. If
// not, the region may still grow beyond it: it leaves the region, whole. The same holds for a tensor in whose statistics
// (loops.hpp) an op of the region needs all rows, unless ops may run in several *passes*. Then ops in the middle that read
// nothing by rows may run whole.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "memplan/split.hpp"

namespace memplan {

// The makers, readers and views of tensors.
struct Links {
  explicit Links(const Graph& graph);

  const Graph& graph;
  std::vector<Index> maker;                 // per tensor; kNone: it is there from the beginning
  std::vector<std::vector<Index>> readers;  // per tensor
  std::vector<Index> root;                  // per tensor: the tensor that it shows, or itself
  std::vector<std::vector<Index>> family;   // per root: itself and its views
  std::vector<bool> stays;                  // per root: the caller gets it, or a view of it
};

class Growth {
 public:
  Growth(const Links& links, Index op, Index loop, bool passes);

  // Takes in the largest tensor that it can, and all ops between members, if these fit; false if there is none.
  bool grow();
  Region region(Index pieces) const;
  std::int64_t longest() const;  // extent of a loop
  std::size_t size() const { return loops_.size(); }

 private:
  using Loops = std::unordered_map<Index, Index>;  // per op, its loop
  using AxesOf = std::unordered_map<Index, Axes>;  // per tensor

  std::optional<Index> edge() const;
  bool needs_passes() const;
  bool extend(const std::function<bool()>& takes);
  bool take_in(Index root);
  void reach_beyond(Index root);
  bool close();
  std::vector<Index> between() const;
  const Loop& loop(Index op) const;
  std::optional<Index> loop_for(Index op, const AxesOf& fixed) const;
  std::optional<Axes> axes_by_members(Index tensor) const;

  const Links& links_;
  bool passes_;
  Loops loops_;
  AxesOf inside_;                    // tensors that lie inside
  std::unordered_set<Index> tried_;  // roots
};

}  // namespace memplan
