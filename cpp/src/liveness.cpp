#include "memplan/liveness.hpp"

#include <algorithm>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

void refuse_parallel_streams(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    if (op.stream == graph.ops().front().stream) continue;
    throw UnsupportedError("ops '" + graph.ops().front().name + "' and '" + op.name + "' run on streams " +
                           std::to_string(graph.ops().front().stream) + " and " + std::to_string(op.stream) +
                           "; lifetimes in steps are safe for one stream only");
  }
}

}  // namespace

std::vector<Lifetime> lifetimes_of(const Graph& graph, const Storages& storages) {
  refuse_parallel_streams(graph);
  const Step end = std::max<Step>(graph.op_count(), 1);
  std::vector<Lifetime> lifetimes(storages.storages.size(), {end, 0});
  const auto touch = [&](Index tensor, Step step) {
    Lifetime& life = lifetimes[static_cast<std::size_t>(storages.storage_of[static_cast<std::size_t>(tensor)])];
    life.first = std::min(life.first, step);
    life.last = std::max(life.last, step + 1);
  };

  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const TensorKind kind = graph.tensor(t).kind;
    if (kind == TensorKind::input || kind == TensorKind::weight) touch(t, 0);
    if (kind == TensorKind::weight) touch(t, end - 1);
  }
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index t : graph.op(k).inputs) touch(t, k);
    for (Index t : graph.op(k).outputs) touch(t, k);
  }
  for (Index t : graph.outputs()) touch(t, end - 1);
  return lifetimes;
}

}  // namespace memplan
