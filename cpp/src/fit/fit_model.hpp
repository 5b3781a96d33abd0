// FitModel: the items of a graph that may leave the arena and come back, and the units that make them again.
//
// An *item* is bytes that live and die together (order/contents_model.hpp). A *unit* makes items again, all of them at
// once. It is either an op with the ops that have changed its outputs since,
//
//     conv ──▶ bn ──▶ relu_ (changes bn's output)        units: {conv}, {bn, relu_}
//
// or the fetch of a tensor that was moved out as soon as all its bytes were final.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/rematerialisation.hpp"
#include "memplan/storage.hpp"
#include "order/contents_model.hpp"

namespace memplan {

struct Unit {
  Index moved = kNone;       // the tensor that is fetched; then the unit has no ops
  std::vector<Index> ops;    // ascending: the op that makes the items, then the ops that change them
  std::vector<Index> items;  // that come back: all that the ops make and the caller does not keep
  std::vector<Index> needs;  // items of other units that the ops read
  double cost = 0;
  double once = 0;  // the cost of moving the tensor out, paid once
  Index from = 0;   // the unit may run right before op k of the order if from <= k <= until
  Index until = 0;
};

// How items may come back.
struct Ways {
  bool recompute = true;
  std::optional<double> transfer = {};  // the cost of a byte that is moved, out or back
  bool parts = false;  // items are moved one by one instead of tensors, which costs no more: for bounds
};

class FitModel {
 public:
  // `graph` outlives it.
  FitModel(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage, const Ways& ways = {});

  Index op_count() const { return contents.op_count(); }
  // Whether an item may ever be away. It may not if it is there from the beginning, or if the caller keeps it from its
  // maker on.
  bool may_leave(Index item) const {
    const Content& content = contents.items[at(item)];
    return content.maker != kNone && (!content.kept || content.kept_from > content.maker);
  }
  // Whether an item has to stay for the caller, after `stage` ops have run.
  bool is_kept(Index item, Index stage) const {
    return contents.items[at(item)].kept && (!may_leave(item) || contents.items[at(item)].kept_from < stage);
  }
  bool may_run_again(Index unit, Index stage) const {
    return unit != kNone && units[at(unit)].from <= stage && stage <= units[at(unit)].until;
  }

  ContentsModel contents;
  std::vector<Unit> units;
  std::vector<Index> unit_of_item;       // the unit whose ops make it again; or kNone
  std::vector<Index> fetch_of_item;      // the unit that fetches it; or kNone
  std::vector<std::vector<Index>> uses;  // per item, ops that use it, without its maker; ascending
};

// Per op, the roots of tensors that it changes. By `Again::changes`, and by overwrites.
std::vector<std::vector<Index>> changed_roots(const Graph& graph, const std::vector<OpFacts>& facts,
                                              const std::vector<Index>& root_of);

// Per tensor, the tensor that owns the bytes in which it lies by need.
std::vector<Index> roots_of(const Graph& graph);

}  // namespace memplan
