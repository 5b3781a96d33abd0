#include "graph/branch_runs.hpp"

#include <algorithm>
#include <set>

namespace memplan {

namespace {

// Which ops run where that one does: those of the first branches that may.
std::vector<bool> running_with(const Graph& graph, Index op) {
  std::vector<bool> runs(graph.ops().size(), false);
  std::vector<Index> taken = {op};  // of different branches
  for (Index k = 0; k < graph.op_count(); ++k) {
    runs[at(k)] = std::ranges::all_of(taken, [&](Index other) { return graph.branches()->coexist(k, other); });
    const bool known =
        std::ranges::any_of(taken, [&](Index other) { return graph.op(other).branch == graph.op(k).branch; });
    if (runs[at(k)] && !known) taken.push_back(k);
  }
  return runs;
}

Graph only(const Graph& graph, const std::vector<bool>& runs) {
  std::set<std::string> gone, gone_ops;
  for (Index k = 0; k < graph.op_count(); ++k) {
    if (runs[at(k)]) continue;
    gone_ops.insert(graph.op(k).name);
    for (Index t : graph.op(k).outputs) gone.insert(graph.tensor(t).name);
  }
  GraphSpec spec;
  for (const Tensor& tensor : graph.tensors())
    if (!gone.contains(tensor.name)) spec.tensors.push_back(tensor);
  for (Index k = 0; k < graph.op_count(); ++k) {
    if (!runs[at(k)]) continue;
    OpSpec op = spec_of(graph, graph.op(k));
    op.branch.clear();
    std::erase_if(op.inputs, [&](const std::string& name) { return gone.contains(name); });
    std::erase_if(op.after, [&](const std::string& name) { return gone_ops.contains(name); });
    for (auto* views : {&op.aliases, &op.inplace, &op.overwrites, &op.slices, &op.concats})
      std::erase_if(*views, [&](const auto& view) { return gone.contains(view.input); });
    spec.ops.push_back(std::move(op));
  }
  for (Index t : graph.outputs())
    if (const std::string& name = graph.tensor(t).name; !gone.contains(name)) spec.outputs.push_back(name);
  for (const std::string& name : graph.layout().exclude)
    if (!gone.contains(name)) spec.layout.exclude.push_back(name);
  for (const Reserved& range : graph.layout().reserved)
    if (range == Reserved{range.begin, range.end}) spec.layout.reserved.push_back(range);  // at all steps
  return Graph(std::move(spec));
}

}  // namespace

std::vector<Graph> runs_of(const Graph& graph) {
  std::vector<Graph> runs;
  std::set<std::string> seen;
  for (Index k = 0; graph.branches() && k < graph.op_count() && runs.size() < kMostRuns; ++k) {
    if (graph.op(k).branch.empty() || seen.contains(graph.op(k).branch)) continue;
    const std::vector<bool> with = running_with(graph, k);
    for (Index other = 0; other < graph.op_count(); ++other)
      if (with[at(other)]) seen.insert(graph.op(other).branch);
    runs.push_back(only(graph, with));
  }
  return runs;
}

}  // namespace memplan
