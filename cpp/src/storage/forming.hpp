// Storages while they form. Each begins with one tensor. Tensors that must share bytes are joined at once; the caller
// joins tensors that share bytes by choice.
#pragma once

#include <vector>

#include "base/groups.hpp"
#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// Whether the caller brings it.
inline bool is_given(TensorKind kind) { return kind == TensorKind::input || kind == TensorKind::weight; }

// The ops that use a tensor. An endless tensor is kept for the caller; a given tensor was there before the first op.
struct Uses {
  Step first = 0;
  Step last = -1;
  bool endless = false;
  std::vector<Index> ops = {};  // if the order is not total
};

// The storage that a group of tensors forms so far.
struct Group {
  Index root = kNone;
  Step first = 0;
  Step last = 0;  // the step after the last use
  bool is_output = false;
  bool excluded = false;                // from the arena
  std::vector<Index> members = {};      // members that may be used again
  std::vector<Index> overwriting = {};  // members that are written over values of others
};

class FormingStorages {
 public:
  // Joins tensors that must share bytes. O(reads + writes). Throws GraphError for an excluded name that is no tensor.
  FormingStorages(const Graph& graph, const HappensBefore& order);

  const Uses& uses(Index t) const { return uses_[at(t)]; }
  Group& group_of(Index t) { return groups_[at(distances_.find(t))]; }
  bool together(Index a, Index b) { return distances_.find(a) == distances_.find(b); }
  // Where t begins in its storage.
  Bytes offset_of(Index t) { return distances_.position(t) - distances_.position(group_of(t).root); }
  // A free tensor's storage is its own, and all that lives in it came after it.
  bool is_root(Index t) { return group_of(t).root == t; }
  TensorKind kind_of(const Group& group) const;
  bool is_placed(const Group& group, const Place& place) const {
    return !group.excluded && place.contains(kind_of(group));
  }

  // Joins the storages of two tensors; that of `inside` lies within that of `whole`, `offset` bytes from where `whole`
  // begins.
  void join(Index whole, Index inside, Bytes offset);
  // The same, and `inside` is written over a value of `whole`.
  void join_over(Index whole, Index inside, Bytes offset);

  // Bytes of all storages of these kinds, summed up; the largest int64 if the sum exceeds it.
  Bytes placed(const Place& place);
  // The storages as they are now, with nothing in `shared` and `unshared`.
  Storages result();

 private:
  void collect_uses(const HappensBefore& order);
  void exclude();
  Group group_of_one(Index t) const;

  const Graph& graph_;
  Groups distances_;
  std::vector<Group> groups_;  // per representative
  std::vector<Uses> uses_;     // per tensor
};

}  // namespace memplan
