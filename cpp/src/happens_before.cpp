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

bool has_overwrites(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return !op.overwrites.empty(); });
}

}  // namespace

HappensBefore::HappensBefore(const Graph& graph, Streams streams) {
  total_ = streams == Streams::in_order && on_one_stream(graph);
  if (total_) return;
  words_ = (graph.ops().size() + 63) / 64;
  if (graph.ops().size() * words_ > kMostBytes / sizeof(std::uint64_t))
    throw UnsupportedError("the order of " + std::to_string(graph.ops().size()) +
                           " ops that may run side by side would need more than 2 GiB");
  ancestors_.resize(graph.ops().size() * words_);

  std::vector<Index> producer(graph.tensors().size(), kNone);
  std::unordered_map<int, Index> last_on;  // stream -> its latest op
  Touches touches(graph);
  const bool overwrites = has_overwrites(graph);
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    for (Index t : op.inputs)
      if (producer[at(t)] != kNone) add(producer[at(t)], k);
    for (Index before : op.after) add(before, k);
    if (streams == Streams::in_order) {
      if (const auto last = last_on.find(op.stream); last != last_on.end()) add(last->second, k);
      last_on[op.stream] = k;
    }
    for (Index t : op.outputs) producer[at(t)] = k;
    if (!overwrites) continue;
    for (Index earlier : touches.overwritten_by(k)) {
      if (streams == Streams::ignored) add(earlier, k);
      if (!before(earlier, k))
        throw GraphError("op '" + op.name + "' on stream " + std::to_string(op.stream) + " overwrites bytes that op '" +
                         graph.op(earlier).name + "' on stream " + std::to_string(graph.op(earlier).stream) +
                         " uses, and neither data nor `after` says which of them runs first");
    }
  }
}

void HappensBefore::add(Index before, Index k) {
  std::uint64_t* to = ancestors_.data() + at(k) * words_;
  const std::uint64_t* from = row(before);
  for (std::size_t w = 0; w <= at(before) / 64; ++w) to[w] |= from[w];
  to[at(before) / 64] |= std::uint64_t{1} << (static_cast<unsigned>(before) % 64);
}

}  // namespace memplan
