#include <algorithm>

#include "memplan/solve_split.hpp"
#include "split/growth.hpp"

namespace memplan {

Bytes split_floor(const Graph& graph, const StorageOptions& storage) {
  const Links links(graph);
  std::vector<bool> placed(graph.tensors().size());
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const Index root = links.root[at(t)];
    placed[at(t)] = storage.place.contains(graph.tensor(root).kind) &&
                    (!links.stays[at(root)] || storage.place.contains(TensorKind::output));
  }
  const auto bytes = [&](Index t) { return placed[at(t)] ? graph.tensor(t).bytes : 0; };
  const auto rows = [&](Index t, const Axes& axes, const RowRange& some) {
    const std::int64_t all = rows_of(graph.tensor(t), axes);
    return all == 0 ? 0 : bytes(t) / all * some.size();
  };
  Bytes floor = 0;
  for (const Op& op : graph.ops()) {
    if (!op.aliases.empty() || !op.overwrites.empty() || !op.concats.empty() || !op.slices.empty()) continue;
    const auto together = [&](const Loop* loop) {
      Bytes in = 0, out = 0;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const Index t = op.inputs[i];
        const bool twice = std::any_of(op.inputs.begin(), op.inputs.begin() + static_cast<std::ptrdiff_t>(i),
                                       [&](Index u) { return links.root[at(u)] == links.root[at(t)]; });
        if (twice) continue;
        Bytes some = bytes(t);
        // Of what is read by several names, or through a view, not all may be needed at once.
        bool several = links.root[at(t)] != t;
        for (std::size_t j = i + 1; j < op.inputs.size(); ++j)
          several = several || links.root[at(op.inputs[j])] == links.root[at(t)];
        if (loop != nullptr) {
          for (const LoopRead& read : loop->reads)
            if (at(read.input) == i)
              some = rows(t, read.axes, rows_read(read, {0, 1}, rows_of(graph.tensor(t), read.axes)));
          if (several) some = 0;
        }
        in += some;
      }
      for (std::size_t o = 0; o < op.outputs.size(); ++o) {
        Bytes some = bytes(op.outputs[o]);
        if (loop != nullptr)
          for (const EarlyOutput& early : loop->early)
            if (at(early.output) == o) some = 0;
        if (loop != nullptr)
          for (const LoopWrite& write : loop->writes)
            if (at(write.output) == o) some = rows(op.outputs[o], write.axes, {0, 1});
        out += some;
      }
      return op.inplace.empty() ? in + out : std::max(in, out);
    };
    Bytes least = together(nullptr);
    for (const Loop& loop : op.loops) least = std::min(least, together(&loop));
    floor = std::max(floor, least);
  }
  return floor;
}

}  // namespace memplan
