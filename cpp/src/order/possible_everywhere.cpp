#include "order/possible_everywhere.hpp"

#include <numeric>

#include "storage/sharing.hpp"

namespace memplan {

namespace {

// Per tensor, whether it lies in the storage of one that the layout excludes, and so shares no bytes by choice.
std::vector<bool> excluded_tensors(const Graph& graph) {
  std::vector<Index> root(graph.tensors().size());
  std::iota(root.begin(), root.end(), Index{0});
  for (const Op& op : graph.ops())
    for (const auto* views : {&op.aliases, &op.overwrites})
      for (const View& view : *views) root[at(view.output)] = root[at(view.input)];
  std::vector<bool> roots(root.size(), false), excluded;
  for (const std::string& name : graph.layout().exclude)
    if (const auto t = graph.find(name)) roots[at(root[at(*t)])] = true;
  for (const Index r : root) excluded.push_back(roots[at(r)]);
  return excluded;
}

}  // namespace

std::vector<Shared> possible_everywhere(const Graph& graph, const StorageOptions& options) {
  std::vector<bool> donated(graph.tensors().size(), false), is_output(graph.tensors().size(), false);
  for (const std::string& name : options.donate)
    if (const auto t = graph.find(name)) donated[at(*t)] = true;
  for (const Index t : graph.outputs()) is_output[at(t)] = true;
  const auto may_take = [&](Index t) {  // or some of its bytes, where the output is larger
    const TensorKind kind = graph.tensor(t).kind;
    return kind != TensorKind::weight && (kind != TensorKind::input || donated[at(t)]) && !is_output[at(t)];
  };
  const std::vector<bool> excluded = excluded_tensors(graph);
  std::vector<Shared> possible;
  const auto add = [&](Sharing how, Index k, const View& view) {
    if (!excluded[at(view.input)] && !excluded[at(view.output)]) possible.push_back({how, k, view});
  };
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    if (options.inplace && !is_disabled(op, options))
      for (const View& view : op.inplace)
        if (may_take(view.input)) add(Sharing::inplace, k, view);
    if (!options.zero_copy) continue;
    for (const View& view : op.slices) add(Sharing::slice, k, view);
    for (const View& view : op.concats) add(Sharing::concat, k, view);
  }
  return possible;
}

}  // namespace memplan
