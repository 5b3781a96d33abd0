#include "memplan/buffers.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "memplan/liveness.hpp"
#include "storage/buffer_layout.hpp"

namespace memplan {

namespace {

struct Columns {
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  std::vector<std::string> names;
  std::vector<Part> parts;

  Index add(Bytes bytes, const Lifetime& life, std::string name) {
    const auto buffer = static_cast<Index>(size.size());
    size.push_back(bytes);
    first.push_back(life.first);
    last.push_back(life.last);
    names.push_back(std::move(name));
    for (const Strip& strip : life.strips) parts.push_back({buffer, strip.begin, strip.end, strip.first, strip.last});
    return buffer;
  }
};

std::vector<Index> add_storages(const Graph& graph, const Storages& storages, const HappensBefore& order,
                                const OpSteps& steps, const Place& place, Columns& columns) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(graph, storages, order, steps);
  std::vector<Index> buffer_of_storage(storages.storages.size(), kNone);
  for (std::size_t s = 0; s < storages.storages.size(); ++s) {
    const Storage& storage = storages.storages[s];
    if (storage.placed(place))
      buffer_of_storage[s] =
          columns.add(storage.bytes, lifetimes[s], graph.named() ? graph.tensor(storage.root).name : std::string());
  }
  return buffer_of_storage;
}

std::vector<Index> add_workspaces(const Graph& graph, const OpSteps& steps, const Place& place, Columns& columns) {
  std::vector<Index> buffer_of_workspace(graph.ops().size(), kNone);
  if (!place.contains(TensorKind::workspace)) return buffer_of_workspace;
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    if (op.workspace > 0)
      buffer_of_workspace[at(k)] = columns.add(op.workspace, {steps.begin[at(k)], steps.begin[at(k) + 1], {}},
                                               graph.named() ? workspace_name(graph, op) : std::string());
  }
  return buffer_of_workspace;
}

// The ops that use a buffer, and those of them that write it.
struct StorageUses {
  std::vector<Index> ops;
  std::vector<Index> writers;
};

std::vector<StorageUses> uses_of(const Graph& graph, const Buffers& buffers) {
  std::vector<StorageUses> uses(at(buffers.problem.count()));
  const auto use = [&](Index buffer, Index op, bool writes) {
    if (buffer == kNone) return;
    uses[at(buffer)].ops.push_back(op);
    if (writes) uses[at(buffer)].writers.push_back(op);
  };
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index t : graph.op(k).inputs) use(buffers.buffer_of_tensor[at(t)], k, false);
    for (Index t : graph.op(k).outputs) use(buffers.buffer_of_tensor[at(t)], k, true);
    use(buffers.buffer_of_workspace[at(k)], k, true);
  }
  return uses;
}

// In which branch each buffer exists: where all that write it run, or in every run if the caller brings it.
std::vector<std::string> branches_of(const Graph& graph, const Buffers& buffers) {
  std::vector<std::string> branches(at(buffers.problem.count()));
  std::vector<bool> known(branches.size(), false);
  const auto exists = [&](Index buffer, const std::string& branch) {
    if (buffer == kNone) return;
    branches[at(buffer)] = known[at(buffer)] ? common_branch(branches[at(buffer)], branch) : branch;
    known[at(buffer)] = true;
  };
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const TensorKind kind = graph.tensor(t).kind;
    if (kind == TensorKind::input || kind == TensorKind::weight) exists(buffers.buffer_of_tensor[at(t)], {});
  }
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    for (Index t : op.outputs) exists(buffers.buffer_of_tensor[at(t)], op.branch);
    exists(buffers.buffer_of_workspace[at(k)], op.branch);
  }
  return branches;
}

// Finds the pairs whose lifetimes, by the order of the list, say that they may share bytes although their ops may run
// side by side: something that uses the earlier does not end before the later is written. What comes after all that
// uses a buffer is, of each stream, all ops from one on; so what is written too soon is a run of ops.
class SideBySide {
 public:
  SideBySide(const Graph& graph, const Buffers& buffers, const HappensBefore& order)
      : problem_(buffers.problem), order_(order), uses_(uses_of(graph, buffers)), written_(order.streams().size()) {
    for (Index b = 0; b < problem_.count(); ++b)
      for (const Index op : uses_[at(b)].writers) written_[at(order.stream_of(op))].emplace_back(op, b);
    for (auto& stream : written_) std::sort(stream.begin(), stream.end());
  }

  // O(buffers x streams x streams that use one x log ops), and the conflicts. What the caller gave or keeps is alive
  // with all that comes after or before it anyway.
  Conflicts conflicts() const {
    Conflicts conflicts(problem_.count());
    for (Index a = 0; a < problem_.count(); ++a) {
      const std::vector<Index> last = last_uses(a);
      for (std::size_t s = 0; s < written_.size() && !last.empty(); ++s) {
        const Index safe = first_after(last, order_.streams()[s]);
        const std::pair<Index, Index> ended(static_cast<Index>(problem_.last(a)), 0);
        for (auto at_end = std::lower_bound(written_[s].begin(), written_[s].end(), ended);
             at_end != written_[s].end() && at_end->first < safe; ++at_end)
          if (problem_.first(at_end->second) >= problem_.last(a)) conflicts.add(a, at_end->second);
      }
    }
    return conflicts;
  }

 private:
  // The last op of each stream that uses a buffer.
  std::vector<Index> last_uses(Index buffer) const {
    std::vector<Index> last;
    for (const Index op : uses_[at(buffer)].ops) {
      const auto same = std::find_if(last.begin(), last.end(),
                                     [&](Index other) { return order_.stream_of(other) == order_.stream_of(op); });
      if (same == last.end())
        last.push_back(op);
      else
        *same = std::max(*same, op);
    }
    return last;
  }

  // The first op of a stream that all of these happen before.
  Index first_after(const std::vector<Index>& ops, const std::vector<Index>& stream) const {
    auto found = stream.begin();
    for (const Index op : ops)
      found = std::partition_point(found, stream.end(), [&](Index other) { return !order_.before(op, other); });
    return found == stream.end() ? std::numeric_limits<Index>::max() : *found;
  }

  const Problem& problem_;
  const HappensBefore& order_;
  const std::vector<StorageUses> uses_;
  std::vector<std::vector<std::pair<Index, Index>>> written_;  // per stream: op, and the buffer that it writes
};

// Storages, lifetimes and conflicts, whatever the layout asks for.
Buffers without_layout(const Graph& graph, const StorageOptions& options, const Wanted& wanted) {
  const HappensBefore order(graph);
  Storages storages = storages_of(graph, order, options, wanted);
  Columns columns;
  OpSteps steps = op_steps_of(graph, order);
  const std::vector<Index> buffer_of_storage = add_storages(graph, storages, order, steps, options.place, columns);
  std::vector<Index> buffer_of_workspace = add_workspaces(graph, steps, options.place, columns);

  std::vector<Index> buffer_of_tensor, root_of_tensor;
  for (Index s : storages.storage_of) {
    buffer_of_tensor.push_back(buffer_of_storage[at(s)]);
    root_of_tensor.push_back(storages.storages[at(s)].root);
  }
  std::vector<Index> donated;
  for (const std::string& name : options.donate) donated.push_back(*graph.find(name));

  std::vector<Bytes> alignments(columns.size.size(), options.alignment);
  Problem problem(std::move(columns.size), std::move(columns.first), std::move(columns.last), std::move(alignments),
                  graph.named() ? std::move(columns.names) : std::vector<std::string>());
  if (!columns.parts.empty()) problem = problem.with_shapes(std::move(columns.parts));
  Buffers buffers{std::move(problem),
                  std::move(buffer_of_tensor),
                  std::move(storages.offset_of),
                  std::move(root_of_tensor),
                  std::move(buffer_of_workspace),
                  std::move(storages.shared),
                  std::move(donated),
                  storages.unshared,
                  steps.is_plain() ? std::vector<Step>{} : std::move(steps.begin)};
  for (Index b : buffers.buffer_of_workspace)
    if (b != kNone) buffers.unshared = saturated_add(buffers.unshared, buffers.problem.size(b));
  if (graph.branches()) buffers.problem = buffers.problem.with_branches(branches_of(graph, buffers));
  if (!order.total()) buffers.problem = buffers.problem.with_conflicts(SideBySide(graph, buffers, order).conflicts());
  return buffers;
}

BufferPlaces lies_in(const Buffers& buffers) {
  return {buffers.problem,        buffers.buffer_of_tensor,    buffers.offset_in_buffer,
          buffers.root_of_tensor, buffers.buffer_of_workspace, buffers.begin_of_op};
}

}  // namespace

std::string workspace_name(const Graph& graph, const Op& op) {
  std::string name = op.name + ".workspace";
  while (graph.find(name)) name += "_";
  return name;
}

Buffers buffers_of(const Graph& graph, const StorageOptions& options, const Wanted& wanted) {
  Buffers buffers = without_layout(graph, options, wanted);
  if (graph.layout().empty()) return buffers;
  try {
    buffers.problem = with_layout(graph, lies_in(buffers));
  } catch (const std::invalid_argument&) {  // perhaps for what shares bytes by choice
    const std::vector<Shared> elsewhere = shared_elsewhere(graph, lies_in(buffers), buffers.shared);
    if (elsewhere.size() == buffers.shared.size()) throw;
    buffers = without_layout(graph, options, elsewhere);
    buffers.problem = with_layout(graph, lies_in(buffers));
  }
  return buffers;
}

}  // namespace memplan
