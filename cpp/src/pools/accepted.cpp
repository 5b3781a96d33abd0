#include "pools/accepted.hpp"

#include <algorithm>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

// The type or its beginning up to a dot is listed: "aten.add" stands for every overload of it.
bool is_listed(std::string_view type, const std::unordered_set<std::string_view>& listed) {
  for (;;) {
    if (listed.contains(type)) return true;
    const std::size_t dot = type.rfind('.');
    if (dot == std::string_view::npos) return false;
    type = type.substr(0, dot);
  }
}

// Per tensor, the bytes that ops write and read.
std::vector<std::int64_t> moved_bytes(const Graph& graph, const Buffers& buffers) {
  const std::size_t count = graph.tensors().size();
  std::vector<std::int64_t> moved(count, 0);
  std::vector<Bytes> there(count, 0);                               // of a concatenation: what its parts hold already
  std::vector<Index> free(count, kNone), part = free, read = free;  // the last op of which it is one
  const auto add = [&](Index t, Bytes bytes) { moved[at(t)] = saturated_add(moved[at(t)], std::max<Bytes>(bytes, 0)); };
  auto shared = buffers.shared.begin();
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    for (const View& view : op.aliases) free[at(view.output)] = k;
    for (; shared != buffers.shared.end() && shared->op == k; ++shared) {
      if (shared->how == Sharing::slice) free[at(shared->view.output)] = k;
      if (shared->how != Sharing::concat) continue;
      part[at(shared->view.input)] = k;
      there[at(shared->view.output)] += graph.tensor(shared->view.input).bytes;
    }
    bool writes = op.outputs.empty() && !op.inputs.empty();
    for (const Index t : op.outputs) {
      if (free[at(t)] == k) continue;
      writes = true;
      add(t, graph.tensor(t).bytes - there[at(t)]);
    }
    for (const Index t : op.inputs) {
      if (!writes || part[at(t)] == k || read[at(t)] == k) continue;
      read[at(t)] = k;
      add(t, graph.tensor(t).bytes);
    }
  }
  return moved;
}

}  // namespace

Accepted::Accepted(const Graph& graph, std::span<const Pool> pools)
    : graph_(graph), maker_(graph.tensors().size(), kNone) {
  for (const Pool& pool : pools) {
    accepts_.emplace_back();
    if (pool.accepts) accepts_.back().emplace(pool.accepts->begin(), pool.accepts->end());
  }
  for (Index k = 0; k < graph.op_count(); ++k)
    for (const Index t : graph.op(k).outputs) maker_[at(t)] = k;
}

bool Accepted::takes(std::size_t pool, TensorKind kind, std::string_view name, const Op* made_by) const {
  if (!accepts_[pool]) return true;
  const Names& names = *accepts_[pool];
  return names.contains(to_string(kind)) || names.contains(name) ||
         (made_by != nullptr && is_listed(made_by->type, names));
}

bool Accepted::takes_tensor(Index t, std::size_t pool) const {
  const Tensor& tensor = graph_.tensor(t);
  return takes(pool, tensor.kind, tensor.name, maker_[at(t)] == kNone ? nullptr : &graph_.op(maker_[at(t)]));
}

bool Accepted::takes_workspace(Index k, std::string_view name, std::size_t pool) const {
  return takes(pool, TensorKind::workspace, name, &graph_.op(k));
}

bool Accepted::takes(std::string_view name, std::size_t pool) const {
  if (const auto t = graph_.find(name)) return takes_tensor(*t, pool);
  for (Index k = 0; k < graph_.op_count(); ++k)
    if (name.starts_with(graph_.op(k).name) && workspace_name(graph_, graph_.op(k)) == name)
      return takes_workspace(k, name, pool);
  return false;
}

Taken Accepted::of(const Buffers& buffers) const {
  const std::size_t pools = accepts_.size();
  Taken taken(at(buffers.problem.count()) * pools, 1);
  const auto put = [&](Index buffer, auto&& takes_it) {
    for (std::size_t p = 0; buffer != kNone && p < pools; ++p)
      if (accepts_[p] && !takes_it(p)) taken[at(buffer) * pools + p] = 0;
  };
  for (Index t = 0; t < graph_.tensor_count(); ++t)
    put(buffers.buffer_of_tensor[at(t)], [&](std::size_t p) { return takes_tensor(t, p); });
  for (Index k = 0; k < graph_.op_count(); ++k)
    if (const Index b = buffers.buffer_of_workspace[at(k)]; b != kNone)
      put(b, [&](std::size_t p) { return takes_workspace(k, buffers.problem.names()[at(b)], p); });
  return taken;
}

std::int64_t saturated_product(Bytes bytes, std::int64_t count) {
  return bytes != 0 && count > kMaxBytes / bytes ? kMaxBytes : bytes * count;
}

std::vector<std::int64_t> accessed_bytes(const Graph& graph, const Buffers& buffers, const Accesses& counts) {
  for (const auto& [name, count] : counts)
    if (!graph.find(name)) throw GraphError("accesses must name tensors of the graph, got " + quoted(name));
  const std::vector<std::int64_t> moved = moved_bytes(graph, buffers);
  std::vector<std::int64_t> accessed(at(buffers.problem.count()), 0);
  const auto add = [&](Index buffer, std::int64_t bytes) {
    if (buffer != kNone) accessed[at(buffer)] = saturated_add(accessed[at(buffer)], bytes);
  };
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const auto counted = counts.find(graph.tensor(t).name);
    add(buffers.buffer_of_tensor[at(t)],
        counted == counts.end() ? moved[at(t)] : saturated_product(graph.tensor(t).bytes, counted->second));
  }
  for (Index k = 0; k < graph.op_count(); ++k)
    add(buffers.buffer_of_workspace[at(k)], saturated_product(graph.op(k).workspace, 2));
  return accessed;
}

}  // namespace memplan
