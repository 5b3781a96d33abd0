#include "memplan/happens_before.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "graph/takeovers.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostOrderBytes = std::size_t{1} << 31;

// What uses the bytes of each root, where overwrites count as writes: per root, by op.
std::vector<std::vector<Use>> uses_of_roots(const Graph& graph) {
  std::vector<Index> root(graph.tensors().size());
  std::vector<Bytes> offset(root.size(), 0);  // in the root
  std::iota(root.begin(), root.end(), Index{0});
  std::vector<std::vector<Use>> uses(root.size());
  const auto use = [&](Index k, Index t, bool writes) {
    uses[at(root[at(t)])].push_back({k, offset[at(t)], offset[at(t)] + graph.tensor(t).bytes, writes});
  };
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    for (const auto* views : {&op.aliases, &op.overwrites}) {
      for (const View& view : *views) {
        root[at(view.output)] = root[at(view.input)];
        offset[at(view.output)] = offset[at(view.input)] + view.offset;
      }
    }
    for (const View& view : op.overwrites) use(k, view.output, true);
    for (Index t : op.inputs) use(k, t, false);
    for (Index t : op.outputs) use(k, t, false);
  }
  return uses;
}

// Per op, the ops that have used the bytes that it overwrites since they were last overwritten.
std::vector<std::vector<Index>> overwritten_by_ops(const Graph& graph) {
  const auto overwrites = [](const Op& op) { return !op.overwrites.empty(); };
  if (std::none_of(graph.ops().begin(), graph.ops().end(), overwrites))
    return std::vector<std::vector<Index>>(graph.ops().size());
  return takeovers_of(uses_of_roots(graph), graph.op_count());
}

// Per op, the ops that it reads from, and `after`.
std::vector<std::vector<Index>> stated_waits(const Graph& graph) {
  std::vector<std::vector<Index>> waits(graph.ops().size());
  std::vector<Index> producer(graph.tensors().size(), kNone);
  for (Index k = 0; k < graph.op_count(); ++k) {
    waits[at(k)] = graph.op(k).after;
    for (Index t : graph.op(k).inputs)
      if (producer[at(t)] != kNone) waits[at(k)].push_back(producer[at(t)]);
    for (Index t : graph.op(k).outputs) producer[at(t)] = k;
  }
  return waits;
}

UnsupportedError too_many(Index ops) {
  return UnsupportedError("the order of " + std::to_string(ops) +
                          " ops that may run side by side would need more than " + std::to_string(kMostOrderBytes) +
                          " bytes");
}

}  // namespace

bool on_one_stream(const Graph& graph) {
  return std::all_of(graph.ops().begin(), graph.ops().end(),
                     [&](const Op& op) { return op.stream == graph.ops().front().stream; });
}

std::vector<std::vector<Index>> waits_of(const Graph& graph) {
  std::vector<std::vector<Index>> waits = stated_waits(graph);
  const std::vector<std::vector<Index>> overwritten = overwritten_by_ops(graph);
  for (std::size_t k = 0; k < waits.size(); ++k)
    waits[k].insert(waits[k].end(), overwritten[k].begin(), overwritten[k].end());
  return waits;
}

void HappensBefore::add(Index k, const std::vector<Index>& waits) {
  if (ancestors_) {
    for (const Index before : waits) ancestors_->add_with_row(k, before);
    return;
  }
  Index* const row = latest_.data() + at(k) * streams_.size();
  for (const Index w : waits) {
    if (before(w, k)) continue;  // by another way, with all that comes before it
    const Index* const other = latest_.data() + at(w) * streams_.size();
    for (std::size_t s = 0; s < streams_.size(); ++s) row[s] = std::max(row[s], other[s]);
  }
  row[stream_of_[at(k)]] = k;
}

OpSets::OpSets(Index ops) : words_((at(ops) + 63) / 64) {
  if (at(ops) * words_ > kMostOrderBytes / sizeof(std::uint64_t)) throw too_many(ops);
  bits_.resize(at(ops) * words_);
}

void OpSets::add_with_row(Index row, Index op) {
  std::uint64_t* to = bits_.data() + at(row) * words_;
  const std::uint64_t* from = bits_.data() + at(op) * words_;
  for (std::size_t w = 0; w <= at(op) / 64; ++w) to[w] |= from[w];
  to[at(op) / 64] |= std::uint64_t{1} << (static_cast<unsigned>(op) % 64);
}

HappensBefore::HappensBefore(const Graph& graph) : total_(on_one_stream(graph)) {
  if (total_) return;
  std::unordered_map<int, Index> numbers;  // of streams
  for (Index k = 0; k < graph.op_count(); ++k) {
    const auto [found, is_new] = numbers.try_emplace(graph.op(k).stream, static_cast<Index>(streams_.size()));
    if (is_new) streams_.emplace_back();
    streams_[at(found->second)].push_back(k);
    stream_of_.push_back(found->second);
  }
  const std::size_t ops = stream_of_.size();
  if (streams_.size() > ops / (8 * sizeof(Index)))
    ancestors_.emplace(graph.op_count());
  else if (ops * streams_.size() > kMostOrderBytes / sizeof(Index))
    throw too_many(graph.op_count());
  else
    latest_.assign(ops * streams_.size(), kNone);
  std::vector<std::vector<Index>> waits = stated_waits(graph);
  for (const std::vector<Index>& stream : streams_)
    for (std::size_t j = 1; j < stream.size(); ++j) waits[at(stream[j])].push_back(stream[j - 1]);
  for (Index k = 0; k < graph.op_count(); ++k) add(k, waits[at(k)]);
  const std::vector<std::vector<Index>> overwritten = overwritten_by_ops(graph);
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index earlier : overwritten[at(k)]) {
      if (before(earlier, k)) continue;
      throw GraphError("op " + quoted(graph.op(k).name) + " on stream " + std::to_string(graph.op(k).stream) +
                       " overwrites bytes that op " + quoted(graph.op(earlier).name) + " on stream " +
                       std::to_string(graph.op(earlier).stream) +
                       " uses, and neither data nor `after` says which of them runs first");
    }
  }
}

}  // namespace memplan
