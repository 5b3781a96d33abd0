// ContentsModel: the bytes that must be in memory at each op of an order. A *content* is the value in a tensor's bytes.
// Tensors that show the same bytes have one content. It counts once, from the op that makes it to the last op that uses
// it.
//
// Let S be a set of ops that has all their predecessors. A content is alive after S if its maker is in S, and either a
// user of it is not in S, or the caller keeps it. So the alive contents depend on S alone, not on the order within S.
// While op v runs after S, these bytes are needed:
//
//     alive(S) + bytes that v makes + workspace of v - bytes of inputs that v is the last to use and may write over
//
// Take the largest of these numbers over all ops of an order. Every plan in this order needs at least that many bytes,
// whichever tensors share bytes.
//
// Bytes are counted as in sharing_bound: a slice counts once with the whole tensor, and a part with its concatenation.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// Bytes that are made, used and dead together, in every order.
struct Content {
  Bytes bytes = 0;
  Index maker = kNone;       // kNone: there from the beginning
  std::vector<Index> users;  // other ops, ascending
  bool kept = false;         // by the caller, to the end
  Index kept_from = kNone;   // the op whose output the caller gets: the maker, or an op that shows it by a view
  Index tensor = kNone;      // the tensor whose bytes they are, ...
  Bytes begin = 0;           // ... and the first of these bytes
  std::vector<Index> roots;  // tensors in which it may lie: that one, and others that show it without a copy
  std::vector<Index> spared =
      {};  // ops that may write over another input, but not over that by which they read this; ascending
};

// An output that may be written over inputs: in place, or because it overlaps inputs that are still being read. It takes
// the bytes of those items (contents in the model) of the inputs that die at the op.
struct Over {
  Bytes bytes = 0;                // of the output that may lie over inputs
  std::vector<Index> items = {};  // of these inputs; in place, without items that have the op in `spared`; ascending
};

// Sorts the values, and leaves each once.
void sort_unique(std::vector<Index>& values);

// Whether the graph has a model: it has ops, all on one stream, and sums of its bytes stay within int64.
bool has_contents_model(const Graph& graph);

class ContentsModel {
 public:
  // `graph` outlives it. Throws as storages_of.
  ContentsModel(const Graph& graph, const StorageOptions& options);
  // So many ops, of which nothing is said yet.
  explicit ContentsModel(std::size_t ops);

  Index op_count() const { return static_cast<Index>(waits.size()); }

  // The most bytes of inputs that the op can write over. dies(item): whether the op is the last to use it.
  template <class Dies>
  Bytes written_over(Index op, Dies&& dies) const {
    if (overs[at(op)].empty()) return 0;
    Bytes outputs = 0, inputs = 0;
    for (const Over& over : overs[at(op)]) {
      Bytes dying = 0;
      for (const Index i : over.items) dying += dies(i) ? items[at(i)].bytes : 0;
      outputs += std::min(over.bytes, dying);
    }
    for (const Index i : over_items[at(op)]) inputs += dies(i) ? items[at(i)].bytes : 0;
    return std::min({outputs, inputs, making[at(op)]});
  }

  std::vector<Content> items;
  std::vector<std::vector<Index>> waits;       // per op, the ops that it waits for; ascending
  std::vector<std::vector<Index>> followers;   // per op, the ops that wait for it; ascending
  std::vector<std::vector<Index>> makes;       // per op, items
  std::vector<std::vector<Index>> uses;        // per op, items of other makers
  std::vector<std::vector<Over>> overs;        // per op, outputs
  std::vector<std::vector<Index>> over_items;  // per op, items of all its overs; ascending
  std::vector<Bytes> making;                   // per op, bytes that it makes, with its workspace
  std::vector<Bytes> over_at_most;             // per op, the most bytes of inputs that it can write over in any order

 private:
  void add_items(const Graph& graph, const StorageOptions& options, std::span<const Shared> possible);
  std::vector<std::vector<Index>> sparing_ops(const Graph& graph, std::span<const Shared> possible) const;
  void add_overs(const Graph& graph, std::span<const Shared> possible);
  std::vector<std::vector<Index>> items_of_;  // per tensor
};

// The bytes alive while an order runs, op by op, forwards and back.
class OrderState {
 public:
  explicit OrderState(const ContentsModel& model);

  Bytes alive() const { return alive_; }
  Bytes need(Index op) const;    // bytes while the op runs next
  Bytes growth(Index op) const;  // by how much the bytes alive grow if the op runs next
  void run(Index op);
  void undo(Index op);  // which ran last
  bool is_last_use(Index item) const { return left_[at(item)] == 1 && !model_.items[at(item)].kept; }
  Index uses_left(Index item) const { return left_[at(item)]; }

 private:
  const ContentsModel& model_;
  std::vector<Index> left_;  // per item, uses that are to come
  Bytes alive_ = 0;
};

// Per op of the order, the bytes needed while it runs.
std::vector<Bytes> needs_of(const ContentsModel& model, std::span<const Index> order);

}  // namespace memplan
