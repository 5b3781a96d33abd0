#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "memplan/errors.hpp"
#include "memplan/ranges.hpp"

namespace memplan {

namespace {

using Rows = std::vector<std::string>;

Rows tensor_names(const Graph& graph) {
  Rows names;
  for (const Tensor& tensor : graph.tensors()) names.push_back(tensor.name);
  return names;
}

Rows op_names(const Graph& graph) {
  Rows names;
  for (const Op& op : graph.ops()) names.push_back(op.name);
  std::ranges::sort(names);
  return names;
}

// What ops read, make, and have to put into what, as people read it.
Rows views(const Graph& graph) {
  Rows rows;
  for (const Op& op : graph.ops()) {
    const auto name = [&](Index t) { return quoted(graph.tensor(t).name); };
    const auto add = [&](const std::string& what) { rows.push_back(what + " of op " + quoted(op.name)); };
    for (const View& view : op.aliases) add(name(view.output) + " in " + name(view.input));
    for (const View& view : op.overwrites) add(name(view.output) + " over " + name(view.input));
    for (const auto* tensors : {&op.inputs, &op.outputs})
      for (const Index t : *tensors) add(name(t));
  }
  std::ranges::sort(rows);
  return rows;
}

void require_same(Rows a, Rows b, const std::string& what, const SizedGraph& one, const SizedGraph& other) {
  if (a == b) return;
  Rows differ;
  std::ranges::sort(a);
  std::ranges::sort(b);
  std::ranges::set_symmetric_difference(a, b, std::back_inserter(differ));
  if (differ.size() > 3) differ.resize(3);
  throw UnsupportedError("the network has other " + what + " at " + other.sizes + " than at " + one.sizes +
                         ", such as " + listed(differ, [](const auto& row) { return row; }) +
                         ": one plan cannot hold for both");
}

}  // namespace

void require_alike(const SizedGraph& one, const SizedGraph& other) {
  const Graph &a = *one.graph, &b = *other.graph;
  require_same(tensor_names(a), tensor_names(b), "tensors", one, other);
  require_same(op_names(a), op_names(b), "ops", one, other);
  require_same(views(a), views(b), "views", one, other);
}

}  // namespace memplan
