#include "memplan/solve_split.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memplan/limits.hpp"
#include "split/split_search.hpp"

namespace memplan {

namespace {

constexpr int kTargets = 10;  // capacities that are tried for the least load

// As low as is found: capacities between what is reached and what is not, halved.
SplitState least(SplitSearch& search, SplitState state) {
  Bytes refused = 0;
  for (int round = 0; round < kTargets && !search.ended() && state.load - refused > state.load / 100; ++round) {
    const Bytes target = refused + (state.load - refused) / 2;
    SplitState next = search.descend(state, target);
    if (next.load < state.load) state = std::move(next);
    if (state.load > target) refused = target;
  }
  return state;
}

// Per region, what it does; views cost no call.
std::vector<SplitChange> changes_of(const Graph& graph, const std::vector<OpFacts>& facts, const SplitState& state,
                                    const std::vector<OpFacts>& split_facts, double call) {
  std::vector<Index> region_of(graph.ops().size(), kNone);
  std::vector<SplitChange> changes;
  for (const Region& region : state.regions) {
    SplitChange change;
    change.pieces = region.pieces;
    for (const RegionOp& one : region.ops) {
      const Op& op = graph.op(one.op);
      region_of[at(one.op)] = static_cast<Index>(changes.size());
      change.ops.push_back(op.name);
      change.cost -= facts[at(one.op)].cost + (op.aliases.empty() ? call : 0);
      if (!op.aliases.empty()) continue;
      for (const Index t : op.outputs)
        if (!state.split->graph.find(graph.tensor(t).name)) {
          change.tensors.push_back(graph.tensor(t).name);
          change.bytes += graph.tensor(t).bytes;
        }
    }
    changes.push_back(std::move(change));
  }
  for (std::size_t k = 0; k < state.split->pieces.size(); ++k) {
    const Piece& piece = state.split->pieces[k];
    const Index region = region_of[at(piece.of)];
    if (region == kNone) continue;
    SplitChange& change = changes[at(region)];
    change.cost += split_facts[k].cost;
    if (state.split->graph.op(static_cast<Index>(k)).aliases.empty()) change.cost += call;
    if (piece.does == Piece::Does::keep)
      change.kept +=
          piece.writes.front().rows.size() *
          (graph.tensor(state.split->tensor_of[at(piece.writes.front().tensor)]).bytes /
           rows_of(graph.tensor(state.split->tensor_of[at(piece.writes.front().tensor)]), piece.writes.front().axes));
  }
  return changes;
}

}  // namespace

FoundSplit find_split(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                      const SplitOptions& options) {
  Limits limits;
  limits.time_limit = options.time_limit;
  limits.stop = options.stop;
  const Deadline deadline(limits);
  SplitSearch search(graph, storage, options.max_pieces, options.work, deadline);
  SplitState state = search.whole();
  state = options.capacity ? search.descend(std::move(state), *options.capacity) : least(search, std::move(state));
  FoundSplit found;
  found.facts = facts_of(*state.split, graph, facts);
  found.changes = changes_of(graph, facts, state, found.facts, options.call);
  found.load = state.load;
  for (const SplitChange& change : found.changes) found.added_cost += change.cost;
  found.pieces = state.split->pieces;
  found.graph = std::shared_ptr<const Graph>(state.split, &state.split->graph);
  return found;
}

}  // namespace memplan
