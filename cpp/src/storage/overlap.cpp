#include "storage/overlap.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace memplan {

bool may_overlap(const Op& op) { return !op.ordered.empty() && op.aliases.empty() && op.overwrites.empty(); }

bool is_dense(const Tensor& tensor) {
  if (!tensor.shape || tensor.bytes == 0) return false;
  std::int64_t elements = 1;
  for (const std::int64_t extent : *tensor.shape) {
    if (extent == 0 || elements > kMaxBytes / extent) return false;
    elements *= extent;
  }
  return tensor.bytes % elements == 0;
}

namespace {

constexpr std::int64_t kMostIterations = 1 << 20;

// Rows of a tensor along one of the ordered loops.
struct Along {
  const LoopRead* read = nullptr;    // of an input; nullptr: each iteration reads all rows
  const LoopWrite* write = nullptr;  // of an output
  std::int64_t rows = 1;
  Bytes row = 0;  // bytes from one row to the next
};

// The loops that are looked at, as far as there are not too many iterations: then the inner ones are taken together.
struct Nest {
  std::vector<const Loop*> loops;
  std::int64_t group = 1;  // iterations of the innermost that count as one
  bool reads_first = false;

  std::int64_t extent(std::size_t l) const {
    const std::int64_t all = loops[l]->extent;
    return l + 1 == loops.size() ? (all + group - 1) / group : all;
  }
  RowRange iterations(std::size_t l, std::int64_t i) const {
    if (l + 1 < loops.size()) return {i, i + 1};
    return {i * group, std::min((i + 1) * group, loops[l]->extent)};
  }
};

Nest nest_of(const Op& op) {
  Nest nest{{}, 1, op.reads_first};
  std::int64_t count = 1;
  for (const Index l : op.ordered) {
    const Loop& loop = op.loops[at(l)];
    if (!nest.loops.empty() && loop.extent > kMostIterations / count) {
      nest.reads_first = false;
      break;
    }
    count *= loop.extent;
    nest.loops.push_back(&loop);
  }
  if (count > kMostIterations) {
    const auto least = static_cast<std::uint64_t>((count + kMostIterations - 1) / kMostIterations);
    nest.group = static_cast<std::int64_t>(std::bit_ceil(least));  // checks may take fewer together: a divisor
    nest.reads_first = false;
  }
  return nest;
}

Bytes row_bytes(const Tensor& tensor, const Axes& axes) {
  std::int64_t elements = 1, behind = 1;
  for (std::size_t axis = 0; axis < tensor.shape->size(); ++axis) {
    elements *= (*tensor.shape)[axis];
    if (axis > at(axes.last)) behind *= (*tensor.shape)[axis];
  }
  return tensor.bytes / elements * behind;
}

// Iterations of a nest in the order in which they run, each as a position in every loop.
class Walk {
 public:
  explicit Walk(const Nest& nest) : nest_(nest), at_(nest.loops.size(), 0) {}

  const std::vector<std::int64_t>& position() const { return at_; }
  bool next() {
    for (std::size_t l = at_.size(); l-- > 0;) {
      if (++at_[l] < nest_.extent(l)) return true;
      at_[l] = 0;
    }
    return false;
  }

 private:
  const Nest& nest_;
  std::vector<std::int64_t> at_;
};

// The lowest byte of an input that an iteration or a later one reads; the end of the input if none reads any. Of later
// iterations, only those count that are further in one loop, and at the beginning of those inside: rows ascend.
class Needed {
 public:
  Needed(const Nest& nest, const std::vector<Along>& along, Bytes bytes) : bytes_(bytes) {
    for (std::size_t l = 0; l < along.size(); ++l) first_.push_back(first_bytes(nest, l, along[l]));
    at_start_.assign(along.size() + 1, 0);
    for (std::size_t l = along.size(); l-- > 0;) at_start_[l] = sum(at_start_[l + 1], first_[l].later[0]);
  }

  Bytes from(const std::vector<std::int64_t>& at) const {
    Bytes least = kNothing, outer = 0;
    for (std::size_t l = 0; l < at.size(); ++l) {
      const bool is_inner = l + 1 == at.size();
      const auto i = memplan::at(at[l]);
      least = std::min(least, sum(sum(outer, first_[l].later[is_inner ? i : i + 1]), at_start_[l + 1]));
      outer = sum(outer, first_[l].own[i]);
    }
    return std::min(least, bytes_);
  }

 private:
  static constexpr Bytes kNothing = kMaxBytes;

  // Along one loop, the first byte that an iteration reads, and that it or a later one does.
  struct First {
    std::vector<Bytes> own;
    std::vector<Bytes> later;  // and one more: behind the last iteration
  };

  static Bytes sum(Bytes a, Bytes b) { return a == kNothing || b == kNothing ? kNothing : a + b; }

  static First first_bytes(const Nest& nest, std::size_t l, const Along& along) {
    First first;
    for (std::int64_t i = 0; i < nest.extent(l); ++i) {
      RowRange rows{0, along.rows};
      if (along.read != nullptr) rows = rows_read(*along.read, nest.iterations(l, i), along.rows);
      first.own.push_back(rows.empty() ? kNothing : along.row * rows.begin);
    }
    first.later.assign(first.own.size() + 1, kNothing);
    for (std::size_t i = first.own.size(); i-- > 0;) first.later[i] = std::min(first.own[i], first.later[i + 1]);
    return first;
  }

  Bytes bytes_;
  std::vector<First> first_;
  std::vector<Bytes> at_start_;  // of the loops from one on inwards, the first byte that they read
};

// The byte behind the highest of an output that an iteration or an earlier one writes.
class Written {
 public:
  Written(const Nest& nest, const std::vector<Along>& along, Bytes bytes) : inner_(bytes) {
    for (std::size_t l = 0; l < along.size(); ++l) {
      inner_ -= along[l].row * (along[l].rows - 1);
      std::vector<Bytes>& last = last_.emplace_back();
      for (std::int64_t i = 0; i < nest.extent(l); ++i)
        last.push_back(along[l].row * (rows_written(*along[l].write, nest.iterations(l, i), along[l].rows).end - 1));
    }
    at_end_.assign(along.size() + 1, 0);
    for (std::size_t l = along.size(); l-- > 0;) at_end_[l] = at_end_[l + 1] + last_[l].back();
  }

  Bytes until(const std::vector<std::int64_t>& at) const {
    Bytes most = 0, outer = 0;
    for (std::size_t l = 0; l < at.size(); ++l) {
      const auto i = memplan::at(at[l]);
      if (i > 0) most = std::max(most, outer + last_[l][i - 1] + at_end_[l + 1]);
      outer += last_[l][i];
    }
    return std::max(most, outer) + inner_;
  }

 private:
  Bytes inner_;                           // from the beginning of the last row along all loops to the end
  std::vector<std::vector<Bytes>> last_;  // along each loop, the last row that an iteration writes
  std::vector<Bytes> at_end_;             // of the loops from one on inwards, in their last iterations
};

// Along each loop, the rows of the input at a position of the op.
std::vector<Along> along_input(const Graph& graph, const Op& op, const Nest& nest, std::size_t position) {
  const Tensor& tensor = graph.tensor(op.inputs[position]);
  std::vector<Along> all;
  for (const Loop* loop : nest.loops) {
    Along& along = all.emplace_back();
    for (const LoopRead& read : loop->reads)
      if (at(read.input) == position)
        along = {&read, nullptr, memplan::rows_of(tensor, read.axes), row_bytes(tensor, read.axes)};
  }
  return all;
}

// The same of an output; nothing if some loop adds to it in all iterations, or it is there before the first.
std::vector<Along> along_output(const Graph& graph, const Op& op, const Nest& nest, std::size_t position) {
  const Tensor& tensor = graph.tensor(op.outputs[position]);
  for (const Index l : op.ordered)
    if (std::ranges::none_of(op.loops[at(l)].writes, [&](const LoopWrite& w) { return at(w.output) == position; }))
      return {};
  std::vector<Along> all;
  for (const Loop* loop : nest.loops) {
    Along along;
    for (const LoopWrite& write : loop->writes)
      if (at(write.output) == position)
        along = {nullptr, &write, memplan::rows_of(tensor, write.axes), row_bytes(tensor, write.axes)};
    all.push_back(along);
  }
  return all;
}

// A kernel that runs its loops: what it needs and what it has written, one moment after another. If an iteration reads
// first, moments lie between its writes and the next reads; else an iteration is a moment.
class Kernel {
 public:
  Kernel(const Graph& graph, const Op& op) : graph_(graph), op_(op), nest_(nest_of(op)) {}

  // Adds a tensor, unless its rows do not lie where its shape says.
  void add_input(Index t) {
    if (!is_dense(graph_.tensor(t))) return;
    std::vector<Needed> positions;
    for (std::size_t i = 0; i < op_.inputs.size(); ++i)
      if (op_.inputs[i] == t) positions.emplace_back(nest_, along_input(graph_, op_, nest_, i), graph_.tensor(t).bytes);
    inputs_.push_back({t, std::move(positions)});
  }
  // The same, unless it is there as a whole from the first iteration on.
  void add_output(std::size_t position) {
    const Tensor& tensor = graph_.tensor(op_.outputs[position]);
    if (!is_dense(tensor)) return;
    const std::vector<Along> along = along_output(graph_, op_, nest_, position);
    if (along.empty()) return;
    outputs_.push_back({op_.outputs[position], Written(nest_, along, tensor.bytes)});
  }

  bool overlaps() const { return !inputs_.empty() && !outputs_.empty(); }

  // Calls f(moment) for each but the last of an op that reads first, in which nothing is needed.
  template <class F>
  void run(F&& f) const {
    OverlapMoment moment = empty();
    bool is_first = true;
    Walk walk(nest_);
    do {
      for (std::size_t i = 0; i < inputs_.size(); ++i) moment.needed[i] = inputs_[i].from(walk.position());
      if (nest_.reads_first && !is_first) f(moment);
      for (std::size_t o = 0; o < outputs_.size(); ++o) moment.written[o] = outputs_[o].written.until(walk.position());
      if (!nest_.reads_first) f(moment);
      is_first = false;
    } while (walk.next());
  }

  // By how much what is written of an output is ahead of what is needed of an input, in the order of inputs, then
  // outputs; the lowest number where nothing is needed any more, or nothing is written yet.
  template <class F>
  void for_each_pair(const OverlapMoment& moment, F&& f) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      for (const Bytes written : moment.written) {
        const bool apart = moment.needed[i] < graph_.tensor(inputs_[i].tensor).bytes && written > 0;
        f(apart ? written - moment.needed[i] : std::numeric_limits<Bytes>::min());
      }
  }

  // When everything is written.
  OverlapMoment last() const {
    OverlapMoment moment = empty();
    std::vector<std::int64_t> end;
    for (std::size_t l = 0; l < nest_.loops.size(); ++l) end.push_back(nest_.extent(l) - 1);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      moment.needed[i] = nest_.reads_first ? graph_.tensor(inputs_[i].tensor).bytes : inputs_[i].from(end);
    for (std::size_t o = 0; o < outputs_.size(); ++o) moment.written[o] = graph_.tensor(outputs_[o].tensor).bytes;
    return moment;
  }

  OverlapMoment empty() const {
    return {std::vector<Bytes>(inputs_.size(), 0), std::vector<Bytes>(outputs_.size(), 0)};
  }
  std::size_t inputs() const { return inputs_.size(); }
  std::size_t outputs() const { return outputs_.size(); }
  Index input(std::size_t i) const { return inputs_[i].tensor; }
  Index output(std::size_t o) const { return outputs_[o].tensor; }

 private:
  struct Read {
    Index tensor;
    std::vector<Needed> positions;

    Bytes from(const std::vector<std::int64_t>& at) const {
      Bytes least = kMaxBytes;
      for (const Needed& needed : positions) least = std::min(least, needed.from(at));
      return least;
    }
  };
  struct Made {
    Index tensor;
    Written written;
  };

  const Graph& graph_;
  const Op& op_;
  Nest nest_;  // to which inputs and outputs refer
  std::vector<Read> inputs_;
  std::vector<Made> outputs_;
};

std::vector<Index> unique_inputs(const Op& op) {
  std::vector<Index> inputs = op.inputs;
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  return inputs;
}

}  // namespace

std::vector<Overlap> overlaps_of(const Graph& graph, Index k) {
  const Op& op = graph.op(k);
  std::vector<Overlap> overlaps;
  if (!may_overlap(op)) return overlaps;
  Kernel kernel(graph, op);
  for (const Index t : unique_inputs(op)) kernel.add_input(t);
  for (std::size_t o = 0; o < op.outputs.size(); ++o) kernel.add_output(o);
  if (!kernel.overlaps()) return overlaps;
  for (std::size_t i = 0; i < kernel.inputs(); ++i)
    for (std::size_t o = 0; o < kernel.outputs(); ++o)
      overlaps.push_back({kernel.input(i), kernel.output(o), -graph.tensor(kernel.input(i)).bytes});
  kernel.run([&](const OverlapMoment& moment) {
    auto overlap = overlaps.begin();
    kernel.for_each_pair(moment, [&](Bytes ahead) { overlap->ahead = std::max(overlap->ahead, ahead), ++overlap; });
  });
  std::erase_if(overlaps, [&](const Overlap& overlap) { return overlap.most(graph) <= 0; });
  return overlaps;
}

OverlapStages overlap_stages(const Graph& graph, Index k, std::span<const Index> dying) {
  const Op& op = graph.op(k);
  if (!may_overlap(op)) return {};
  Kernel kernel(graph, op);
  for (const Index t : unique_inputs(op))
    if (std::find(dying.begin(), dying.end(), t) != dying.end()) kernel.add_input(t);
  for (std::size_t o = 0; o < op.outputs.size(); ++o) kernel.add_output(o);
  if (!kernel.overlaps()) return {};

  // Of each pair, the first moment in which what is written is furthest ahead of what is needed.
  struct Tightest {
    Bytes ahead;
    std::int64_t moment = -1;
  };
  std::vector<Tightest> tightest(kernel.inputs() * kernel.outputs(), {std::numeric_limits<Bytes>::min()});
  std::int64_t count = 0;
  kernel.run([&](const OverlapMoment& moment) {
    auto pair = tightest.begin();
    kernel.for_each_pair(moment, [&](Bytes ahead) {
      if (ahead > pair->ahead) *pair = {ahead, count};
      ++pair;
    });
    ++count;
  });
  OverlapStages stages;
  for (std::size_t i = 0; i < kernel.inputs(); ++i) stages.inputs.push_back(kernel.input(i));
  for (std::size_t o = 0; o < kernel.outputs(); ++o) stages.outputs.push_back(kernel.output(o));
  const bool apart = std::all_of(tightest.begin(), tightest.end(), [&](const Tightest& pair) {
    const auto o = static_cast<std::size_t>(&pair - tightest.data()) % kernel.outputs();
    return pair.ahead >= graph.tensor(kernel.output(o)).bytes;
  });
  if (apart) return {};
  count = 0;
  kernel.run([&](const OverlapMoment& moment) {
    const auto is_now = [&](const Tightest& pair) { return pair.moment == count; };
    if (std::any_of(tightest.begin(), tightest.end(), is_now)) stages.moments.push_back(moment);
    ++count;
  });
  const auto none = [](Bytes bytes) { return bytes == 0; };
  if (stages.moments.empty() || !std::ranges::all_of(stages.moments.front().needed, none))
    stages.moments.insert(stages.moments.begin(), kernel.empty());
  if (OverlapMoment last = kernel.last(); !(last == stages.moments.back())) stages.moments.push_back(std::move(last));
  return stages;
}

}  // namespace memplan
