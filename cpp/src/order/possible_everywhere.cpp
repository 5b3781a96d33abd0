#include "order/possible_everywhere.hpp"

#include "storage/sharing.hpp"

namespace memplan {

std::vector<Shared> possible_everywhere(const Graph& graph, const StorageOptions& options) {
  std::vector<bool> donated(graph.tensors().size(), false), is_output(graph.tensors().size(), false);
  for (const std::string& name : options.donate)
    if (const auto t = graph.find(name)) donated[at(*t)] = true;
  for (const Index t : graph.outputs()) is_output[at(t)] = true;
  const auto may_take = [&](Index t) {
    const TensorKind kind = graph.tensor(t).kind;
    return kind != TensorKind::weight && (kind != TensorKind::input || donated[at(t)]) && !is_output[at(t)];
  };
  std::vector<Shared> possible;
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    if (options.inplace && !is_disabled(op, options))
      for (const View& view : op.inplace)
        if (may_take(view.input)) possible.push_back({Sharing::inplace, k, view});
    if (!options.zero_copy) continue;
    for (const View& view : op.slices) possible.push_back({Sharing::slice, k, view});
    for (const View& view : op.concats) possible.push_back({Sharing::concat, k, view});
  }
  return possible;
}

}  // namespace memplan
