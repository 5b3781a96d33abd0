#include "memplan/graph.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "graph/graph_checks.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::array<std::string_view, kTensorKinds> kKindNames = {"input", "weight", "intermediate", "output",
                                                                   "workspace"};

void check_tensor(const Tensor& tensor, std::size_t position) {
  if (tensor.name.empty()) throw GraphError("tensor " + std::to_string(position) + " has an empty name");
  if (tensor.bytes < 0)
    throw GraphError("tensor " + quoted(tensor.name) + ": bytes must be >= 0, got " + std::to_string(tensor.bytes));
}

using OpIndex = std::unordered_map<std::string, Index>;

template <class Ref>
OpIndex index_ops(const std::vector<BasicOp<Ref>>& ops) {
  OpIndex index;
  for (std::size_t k = 0; k < ops.size(); ++k) {
    if (ops[k].name.empty()) throw GraphError("op " + std::to_string(k) + " has an empty name");
    if (!index.emplace(ops[k].name, static_cast<Index>(k)).second)
      throw GraphError("two ops are named " + quoted(ops[k].name) + "; names of ops must be unique");
  }
  return index;
}

// Turns the names in one op into indices.
class Resolver {
 public:
  Resolver(const Graph& graph, const OpIndex& op_index, const OpSpec& op)
      : graph_(graph), op_index_(op_index), op_(op) {}

  std::vector<Index> tensors(const std::vector<std::string>& names, std::string_view role) const {
    std::vector<Index> indices;
    indices.reserve(names.size());
    for (const std::string& name : names) indices.push_back(tensor(name, role));
    return indices;
  }

  std::vector<View> views(const std::vector<BasicView<std::string>>& specs, std::string_view role) const {
    std::vector<View> views;
    views.reserve(specs.size());
    for (const auto& spec : specs) views.push_back({tensor(spec.output, role), tensor(spec.input, role), spec.offset});
    return views;
  }

  std::vector<Index> ops(const std::vector<std::string>& names) const {
    std::vector<Index> indices;
    for (const std::string& name : names) {
      const auto found = op_index_.find(name);
      if (found == op_index_.end())
        throw GraphError("op " + quoted(op_.name) + " runs after " + quoted(name) + ", which is no op of the graph");
      indices.push_back(found->second);
    }
    return indices;
  }

 private:
  Index tensor(const std::string& name, std::string_view role) const {
    if (const auto index = graph_.find(name)) return *index;
    throw GraphError("op " + quoted(op_.name) + ": " + std::string(role) + " " + quoted(name) +
                     " is not among the graph's tensors");
  }

  const Graph& graph_;
  const OpIndex& op_index_;
  const OpSpec& op_;
};

Op resolve(const Graph& graph, const OpIndex& op_index, OpSpec spec) {
  const Resolver resolver(graph, op_index, spec);
  Op op;
  op.inputs = resolver.tensors(spec.inputs, "input");
  op.outputs = resolver.tensors(spec.outputs, "output");
  op.aliases = resolver.views(spec.aliases, "alias");
  op.inplace = resolver.views(spec.inplace, "inplace");
  op.overwrites = resolver.views(spec.overwrites, "overwrite");
  op.slices = resolver.views(spec.slices, "slice");
  op.concats = resolver.views(spec.concats, "concat");
  op.after = resolver.ops(spec.after);
  op.workspace = spec.workspace;
  op.stream = spec.stream;
  op.cost = spec.cost;
  op.recompute = spec.recompute;
  op.branch = std::move(spec.branch);
  op.flops = spec.flops;
  op.loops = std::move(spec.loops);
  op.ordered = std::move(spec.ordered);
  op.reads_first = spec.reads_first;
  op.body = std::move(spec.body);
  op.pieces_copied = spec.pieces_copied;
  op.name = std::move(spec.name);
  op.type = std::move(spec.type);
  return op;
}

}  // namespace

std::string_view to_string(TensorKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

TensorKind tensor_kind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found != kKindNames.end()) return static_cast<TensorKind>(found - kKindNames.begin());
  throw GraphError("kind must be one of input, weight, intermediate, output, workspace, got " + quoted(name));
}

Graph::Graph(GraphSpec spec) : tensors_(std::move(spec.tensors)), layout_(std::move(spec.layout)) {
  index_tensors();
  const OpIndex op_index = index_ops(spec.ops);
  ops_.reserve(spec.ops.size());
  for (OpSpec& op : spec.ops) ops_.push_back(resolve(*this, op_index, std::move(op)));
  std::vector<Index> listed;
  for (const std::string& name : spec.outputs) {
    const auto index = find(name);
    if (!index) throw GraphError("graph output " + quoted(name) + " is not among the graph's tensors");
    listed.push_back(*index);
  }
  set_outputs(listed);
  set_branches();
  check_graph(*this);
}

Graph::Graph(GraphParts parts) : tensors_(std::move(parts.tensors)), ops_(std::move(parts.ops)) {
  index_tensors();
  index_ops(ops_);
  set_outputs(parts.outputs);
  set_branches();
  check_graph(*this);
}

Graph Graph::trusted(GraphParts parts) {
  Graph graph;
  graph.tensors_ = std::move(parts.tensors);
  graph.ops_ = std::move(parts.ops);
  graph.set_outputs(parts.outputs);
  return graph;
}

void Graph::index_tensors() {
  index_of_.reserve(tensors_.size());
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    check_tensor(tensors_[t], t);
    if (!index_of_.emplace(tensors_[t].name, static_cast<Index>(t)).second)
      throw GraphError("two tensors are named " + quoted(tensors_[t].name) + "; names of tensors must be unique");
  }
}

// Those that are listed, in their order, and then all others of that kind.
void Graph::set_outputs(const std::vector<Index>& listed) {
  std::vector<bool> is_output(tensors_.size(), false);
  const auto add_output = [&](Index t) {
    if (is_output[at(t)]) return;
    is_output[at(t)] = true;
    outputs_.push_back(t);
    TensorKind& kind = tensors_[at(t)].kind;
    if (kind == TensorKind::intermediate) kind = TensorKind::output;
  };
  for (const Index t : listed) add_output(t);
  for (Index t = 0; t < tensor_count(); ++t)
    if (tensor(t).kind == TensorKind::output) add_output(t);
}

void Graph::set_branches() {
  std::vector<std::string> branches;
  for (const Op& op : ops_) {
    if (const std::string wrong = wrong_branch(op.branch); !wrong.empty())
      throw GraphError("op " + quoted(op.name) + ": branch " + wrong);
    branches.push_back(op.branch);
  }
  if (std::ranges::any_of(branches, [](const std::string& branch) { return !branch.empty(); }))
    branches_.emplace(std::move(branches));
}

std::optional<Index> Graph::find(std::string_view tensor_name) const {
  const auto found = index_of_.find(tensor_name);
  if (found == index_of_.end()) return std::nullopt;
  return found->second;
}

bool Graph::operator==(const Graph& other) const {
  return tensors_ == other.tensors_ && ops_ == other.ops_ && outputs_ == other.outputs_ && layout_ == other.layout_;
}

std::int64_t rows_of(const Tensor& tensor, const Axes& axes) {
  std::int64_t rows = 1;
  for (Index axis = axes.first; axis <= axes.last; ++axis)
    if (const std::int64_t extent = (*tensor.shape)[at(axis)]; extent == 0)
      return 0;
    else
      rows = rows > kMaxBytes / extent ? kMaxBytes : rows * extent;
  return rows;
}

OpSpec spec_of(const Graph& graph, const Op& op) {
  const auto tensors = [&](const std::vector<Index>& indices) {
    std::vector<std::string> names;
    for (const Index t : indices) names.push_back(graph.tensor(t).name);
    return names;
  };
  const auto views = [&](const std::vector<View>& of) {
    std::vector<BasicView<std::string>> named;
    for (const View& view : of)
      named.push_back({graph.tensor(view.output).name, graph.tensor(view.input).name, view.offset});
    return named;
  };
  std::vector<std::string> after;
  for (const Index k : op.after) after.push_back(graph.op(k).name);
  return {op.name,         op.type,           tensors(op.inputs), tensors(op.outputs),
          op.workspace,    views(op.aliases), views(op.inplace),  views(op.overwrites),
          op.stream,       views(op.slices),  views(op.concats),  std::move(after),
          op.cost,         op.recompute,      op.branch,          op.flops,
          op.loops,        op.ordered,        op.reads_first,     op.body,
          op.pieces_copied};
}

bool has_bodies(const Graph& graph) {
  return std::ranges::any_of(graph.ops(), [](const Op& op) { return !op.body.empty(); });
}

std::optional<Bytes> total_bytes(const Graph& graph) {
  std::optional<Bytes> sum = 0;
  for (const Tensor& tensor : graph.tensors()) sum = sum ? checked_add(*sum, tensor.bytes) : sum;
  for (const Op& op : graph.ops()) sum = sum ? checked_add(*sum, op.workspace) : sum;
  return sum;
}

}  // namespace memplan
