#include "memplan/storage.hpp"

#include <numeric>

namespace memplan {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// Puts every view inside the root of what it looks at; ops come in execution order, so inputs are settled.
void join_views(const Graph& graph, std::vector<Index>& root, std::vector<Bytes>& offset) {
  for (const Op& op : graph.ops()) {
    for (const auto* views : {&op.aliases, &op.overwrites}) {
      for (const View& view : *views) {
        root[at(view.output)] = root[at(view.input)];
        offset[at(view.output)] = offset[at(view.input)] + view.offset;
      }
    }
  }
}

}  // namespace

Storages storages_of(const Graph& graph) {
  std::vector<Index> root(graph.tensors().size());
  std::iota(root.begin(), root.end(), Index{0});
  Storages result;
  result.offset_of.assign(graph.tensors().size(), 0);
  join_views(graph, root, result.offset_of);

  result.storage_of.assign(graph.tensors().size(), kNone);
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    if (root[at(t)] != t) continue;
    result.storage_of[at(t)] = static_cast<Index>(result.storages.size());
    result.storages.push_back({t, graph.tensor(t).bytes, graph.tensor(t).kind});
  }
  for (Index t = 0; t < graph.tensor_count(); ++t) result.storage_of[at(t)] = result.storage_of[at(root[at(t)])];

  for (Index t : graph.outputs()) {
    TensorKind& kind = result.storages[at(result.storage_of[at(t)])].kind;
    if (kind == TensorKind::intermediate) kind = TensorKind::output;
  }
  return result;
}

}  // namespace memplan
