#include "memplan/buffers.hpp"

#include "memplan/errors.hpp"
#include "memplan/liveness.hpp"
#include "memplan/storage.hpp"

namespace memplan {

namespace {

struct Columns {
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  std::vector<std::string> names;

  Index add(Bytes bytes, Lifetime life, std::string name) {
    size.push_back(bytes);
    first.push_back(life.first);
    last.push_back(life.last);
    names.push_back(std::move(name));
    return static_cast<Index>(size.size()) - 1;
  }
};

// "conv1.workspace", made longer where a tensor has that name already.
std::string workspace_name(const Graph& graph, const Op& op) {
  std::string name = op.name + ".workspace";
  while (graph.find(name)) name += "_";
  return name;
}

std::vector<Index> add_storages(const Graph& graph, const Storages& storages, const Place& place, Columns& columns) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(graph, storages);
  std::vector<Index> buffer_of_storage(storages.storages.size(), kNone);
  for (std::size_t s = 0; s < storages.storages.size(); ++s) {
    const Storage& storage = storages.storages[s];
    if (place.contains(storage.kind))
      buffer_of_storage[s] = columns.add(storage.bytes, lifetimes[s], graph.tensor(storage.root).name);
  }
  return buffer_of_storage;
}

std::vector<Index> add_workspaces(const Graph& graph, const Place& place, Columns& columns) {
  std::vector<Index> buffer_of_workspace(graph.ops().size(), kNone);
  if (!place.contains(TensorKind::workspace)) return buffer_of_workspace;
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    if (op.workspace > 0)
      buffer_of_workspace[static_cast<std::size_t>(k)] =
          columns.add(op.workspace, {k, k + 1}, workspace_name(graph, op));
  }
  return buffer_of_workspace;
}

}  // namespace

Buffers buffers_of(const Graph& graph, const Place& place, Bytes alignment) {
  if (alignment < 1) throw ProblemError("alignment must be >= 1, got " + std::to_string(alignment));
  const Storages storages = storages_of(graph);
  Columns columns;
  const std::vector<Index> buffer_of_storage = add_storages(graph, storages, place, columns);
  std::vector<Index> buffer_of_workspace = add_workspaces(graph, place, columns);

  std::vector<Index> buffer_of_tensor;
  buffer_of_tensor.reserve(storages.storage_of.size());
  for (Index s : storages.storage_of) buffer_of_tensor.push_back(buffer_of_storage[static_cast<std::size_t>(s)]);

  std::vector<Bytes> alignments(columns.size.size(), alignment);
  return {Problem(std::move(columns.size), std::move(columns.first), std::move(columns.last), std::move(alignments),
                  std::move(columns.names)),
          std::move(buffer_of_tensor), storages.offset_of, std::move(buffer_of_workspace)};
}

}  // namespace memplan
