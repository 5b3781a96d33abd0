#include "memplan/happens_before.hpp"

#include <algorithm>
#include <unordered_map>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 31;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

bool on_one_stream(const Graph& graph) {
  return std::all_of(graph.ops().begin(), graph.ops().end(),
                     [&](const Op& op) { return op.stream == graph.ops().front().stream; });
}

// Who touches the bytes of each root, in the order of the list; asked for what an overwrite has to wait for.
class Touches {
 public:
  explicit Touches(const Graph& graph) : graph_(graph), root_(graph.tensors().size()), offset_(root_.size(), 0) {
    for (std::size_t t = 0; t < root_.size(); ++t) root_[t] = static_cast<Index>(t);
    touches_.resize(root_.size());
  }

  // The ops that touch bytes which op k overwrites, before k. Call for all ops in order.
  std::vector<Index> overwritten_by(Index k) {
    const Op& op = graph_.op(k);
    for (const auto* views : {&op.aliases, &op.overwrites}) {
      for (const View& view : *views) {
        root_[at(view.output)] = root_[at(view.input)];
        offset_[at(view.output)] = offset_[at(view.input)] + view.offset;
      }
    }
    std::vector<Index> before;
    for (const View& view : op.overwrites) {
      const Bytes begin = offset_[at(view.output)];
      const Bytes end = begin + graph_.tensor(view.output).bytes;
      for (const Touch& touch : touches_[at(root_[at(view.output)])])
        if (touch.op != k && std::max(begin, touch.begin) < std::min(end, touch.end)) before.push_back(touch.op);
    }
    for (Index t : op.inputs) touch(k, t);
    for (Index t : op.outputs) touch(k, t);
    return before;
  }

 private:
  struct Touch {
    Index op;
    Bytes begin, end;
  };

  void touch(Index k, Index t) {
    const Bytes begin = offset_[at(t)];
    touches_[at(root_[at(t)])].push_back({k, begin, begin + graph_.tensor(t).bytes});
  }

  const Graph& graph_;
  std::vector<Index> root_;    // per tensor
  std::vector<Bytes> offset_;  // per tensor, in its root
  std::vector<std::vector<Touch>> touches_;
};

// Per op, the ops whose bytes it overwrites.
std::vector<std::vector<Index>> overwritten_by_ops(const Graph& graph) {
  std::vector<std::vector<Index>> overwritten(graph.ops().size());
  const auto overwrites = [](const Op& op) { return !op.overwrites.empty(); };
  if (std::none_of(graph.ops().begin(), graph.ops().end(), overwrites)) return overwritten;
  Touches touches(graph);
  for (Index k = 0; k < graph.op_count(); ++k) overwritten[at(k)] = touches.overwritten_by(k);
  return overwritten;
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

}  // namespace

std::vector<std::vector<Index>> waits_of(const Graph& graph) {
  std::vector<std::vector<Index>> waits = stated_waits(graph);
  const std::vector<std::vector<Index>> overwritten = overwritten_by_ops(graph);
  for (std::size_t k = 0; k < waits.size(); ++k)
    waits[k].insert(waits[k].end(), overwritten[k].begin(), overwritten[k].end());
  return waits;
}

OpSets::OpSets(Index ops) : words_((at(ops) + 63) / 64) {
  if (at(ops) * words_ > kMostBytes / sizeof(std::uint64_t))
    throw UnsupportedError("the order of " + std::to_string(ops) +
                           " ops that may run side by side would need more than " + std::to_string(kMostBytes) +
                           " bytes");
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
  ancestors_.emplace(graph.op_count());
  const std::vector<std::vector<Index>> waits = stated_waits(graph);
  std::unordered_map<int, Index> last_on;  // stream -> its latest op
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index before : waits[at(k)]) ancestors_->add_with_row(k, before);
    const auto [last, first_on_stream] = last_on.try_emplace(graph.op(k).stream, k);
    if (!first_on_stream) ancestors_->add_with_row(k, last->second);
    last->second = k;
  }
  const std::vector<std::vector<Index>> overwritten = overwritten_by_ops(graph);
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index earlier : overwritten[at(k)]) {
      if (before(earlier, k)) continue;
      throw GraphError("op '" + graph.op(k).name + "' on stream " + std::to_string(graph.op(k).stream) +
                       " overwrites bytes that op '" + graph.op(earlier).name + "' on stream " +
                       std::to_string(graph.op(earlier).stream) +
                       " uses, and neither data nor `after` says which of them runs first");
    }
  }
}

}  // namespace memplan
