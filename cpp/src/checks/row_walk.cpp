#include "checks/row_walk.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kMostWalked = 1 << 22;
constexpr std::int64_t kMostByteRuns = 1 << 23;  // of bytes, in all iterations of an op

// Iterations that are run together, so that there are at most so many: a power of two.
std::int64_t together(std::int64_t iterations, std::int64_t most) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>((iterations + most - 1) / most)));
}

// Bytes that have been written since the op began.
class WrittenBytes {
 public:
  void add(ByteRun run) {
    auto it = runs_.upper_bound(run.begin);
    if (it != runs_.begin() && std::prev(it)->second >= run.begin) --it;
    while (it != runs_.end() && it->first <= run.end) {
      run.begin = std::min(run.begin, it->first);
      run.end = std::max(run.end, it->second);
      it = runs_.erase(it);
    }
    runs_[run.begin] = run.end;
  }
  bool touches(ByteRun run) const {
    auto it = runs_.upper_bound(run.begin);
    if (it != runs_.begin() && std::prev(it)->second > run.begin) return true;
    return it != runs_.end() && it->first < run.end;
  }

 private:
  std::map<Bytes, Bytes> runs_;  // from the first byte to the end; apart
};

// Whether each element of the shape has as many whole bytes.
bool has_plain_rows(const Tensor& tensor) {
  if (!tensor.shape) return false;
  Bytes bytes = tensor.bytes;
  for (const std::int64_t extent : *tensor.shape) {
    if (extent == 0 || bytes % extent != 0) return false;
    bytes /= extent;
  }
  return bytes > 0;
}

// A tensor of the op, laid out for the loops that are run: its axes from the innermost on, those that a loop takes
// together as one. Rows of the others are whole.
struct WalkedRows {
  struct Level {
    std::int64_t rows;
    Bytes row;                         // bytes from one row to the next
    std::size_t loop;                  // of those that are run; kWhole: none
    const LoopRead* read = nullptr;    // along it, of an input
    const LoopWrite* write = nullptr;  // of an output
  };
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);

  Bytes begin;
  Bytes element;
  std::vector<Level> levels;
  std::vector<ByteRun> written = {};  // of an output, in the region
};

// Rows of a level that an iteration touches.
RowRange rows_at(const WalkedRows::Level& level, const std::vector<RowRange>& iteration) {
  if (level.loop == WalkedRows::kWhole) return {0, level.rows};
  return level.read != nullptr ? rows_read(*level.read, iteration[level.loop], level.rows)
                               : rows_written(*level.write, iteration[level.loop], level.rows);
}

// All bytes from the first to the last that an iteration touches; none if it touches no row.
std::optional<ByteRun> hull(const WalkedRows& tensor, const std::vector<RowRange>& iteration) {
  ByteRun run{tensor.begin, tensor.begin + tensor.element};
  for (const WalkedRows::Level& level : tensor.levels) {
    const RowRange rows = rows_at(level, iteration);
    if (rows.empty()) return std::nullopt;
    run.begin += rows.begin * level.row;
    run.end += (rows.end - 1) * level.row;
  }
  return run;
}

// How many runs of bytes the rows are that an iteration touches.
std::int64_t runs_of(const WalkedRows& tensor, const std::vector<RowRange>& iteration) {
  std::int64_t runs = 1;
  bool is_whole = true;
  for (const WalkedRows::Level& level : tensor.levels) {
    const std::int64_t rows = rows_at(level, iteration).size();
    if (!is_whole) runs *= rows;
    is_whole = is_whole && rows == level.rows;
  }
  return runs;
}

// Calls f with each run of bytes in the rows that an iteration touches.
template <class F>
void for_each_run(const WalkedRows& tensor, const std::vector<RowRange>& iteration, F&& f) {
  // From the innermost level on, rows that lie one behind another are one run.
  std::size_t level = 0;
  Bytes first = tensor.begin, length = tensor.element;
  for (bool is_whole = true; level < tensor.levels.size() && is_whole; ++level) {
    const RowRange rows = rows_at(tensor.levels[level], iteration);
    if (rows.empty()) return;
    first += rows.begin * tensor.levels[level].row;
    length = rows.size() * tensor.levels[level].row;
    is_whole = rows.size() == tensor.levels[level].rows;
  }
  for (std::size_t outer = level; outer < tensor.levels.size(); ++outer)
    if (rows_at(tensor.levels[outer], iteration).empty()) return;
  const auto shifted = [&](auto&& self, std::size_t outer, Bytes begin) -> void {
    if (outer == level) {
      f(ByteRun{begin, begin + length});
      return;
    }
    const RowRange rows = rows_at(tensor.levels[outer - 1], iteration);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      self(self, outer - 1, begin + row * tensor.levels[outer - 1].row);
  };
  shifted(shifted, tensor.levels.size(), first);
}

class RowWalk {
 public:
  RowWalk(const Graph& graph, const Op& op, const std::vector<WalkedTensor>& inputs,
          const std::vector<WalkedTensor>& outputs, std::size_t loops, bool reads_first)
      : graph_(graph), op_(op), inputs_(inputs), loops_(loops), reads_first_(reads_first) {
    for (const WalkedTensor& input : inputs) read_.push_back(laid_out(input, op.inputs[input.position], true));
    for (const WalkedTensor& output : outputs) {
      WalkedRows rows = laid_out(output, op.outputs[output.position], false);
      (is_written_in_turn(output.position) ? written_in_turn_ : written_first_).push_back(std::move(rows));
    }
  }

  // Iterations of the innermost of these loops that are run as one; they live together.
  std::string run(std::int64_t group) {
    group_ = group;
    iteration_.assign(loops_, {});
    has_hulls_ = runs() > kMostByteRuns;
    for (const WalkedRows& output : written_first_)
      for (const ByteRun& run : output.written) written_.add(run);
    step(0);
    return wrong_;
  }

 private:
  const Loop& loop(std::size_t l) const { return op_.loops[at(op_.ordered[l])]; }

  WalkedRows laid_out(const WalkedTensor& walked, Index t, bool is_input) const {
    const Tensor& tensor = graph_.tensor(t);
    std::int64_t elements = 1;
    for (const std::int64_t extent : *tensor.shape) elements *= extent;
    WalkedRows rows{walked.begin, tensor.bytes / elements, {}};
    for (const ByteRun& run : walked.written)
      rows.written.push_back({walked.begin + run.begin, walked.begin + run.end});
    Bytes row = rows.element;
    for (Index axis = static_cast<Index>(tensor.shape->size()) - 1; axis >= 0;) {
      WalkedRows::Level level{0, row, WalkedRows::kWhole};
      Axes axes{axis, axis};
      for (std::size_t l = 0; l < loops_; ++l) {
        for (const LoopRead& read : loop(l).reads)
          if (is_input && at(read.input) == walked.position && read.axes.last == axis)
            level.loop = l, level.read = &read, axes = read.axes;
        for (const LoopWrite& write : loop(l).writes)
          if (!is_input && at(write.output) == walked.position && write.axes.last == axis)
            level.loop = l, level.write = &write, axes = write.axes;
      }
      level.rows = memplan::rows_of(tensor, axes);
      row *= level.rows;
      rows.levels.push_back(level);
      axis = axes.first - 1;
    }
    return rows;
  }

  // What a loop adds to, or makes early, is there from the start, also where that loop is not run by itself.
  bool is_written_in_turn(std::size_t position) const {
    for (std::size_t l = 0; l < op_.ordered.size(); ++l)
      if (std::none_of(loop(l).writes.begin(), loop(l).writes.end(),
                       [&](const LoopWrite& write) { return at(write.output) == position; }))
        return false;
    return true;
  }

  // Runs of bytes in all iterations, if each has as many as the first.
  std::int64_t runs() {
    std::int64_t iterations = 1, of_first = 0;
    for (std::size_t l = 0; l < loops_; ++l) {
      const std::int64_t size = l + 1 == loops_ ? group_ : 1;
      iteration_[l] = {0, std::min(size, loop(l).extent)};
      iterations *= (loop(l).extent + size - 1) / size;
    }
    for (const auto* tensors : {&read_, &written_in_turn_})
      for (const WalkedRows& tensor : *tensors) of_first += runs_of(tensor, iteration_);
    return of_first > kMaxBytes / iterations ? kMaxBytes : iterations * of_first;
  }

  template <class F>
  void for_each_touched(const WalkedRows& tensor, F&& f) const {
    if (!has_hulls_) return for_each_run(tensor, iteration_, f);
    if (const std::optional<ByteRun> all = hull(tensor, iteration_)) f(*all);
  }

  void step(std::size_t l) {
    if (l == loops_) {
      read();
      for (const WalkedRows& output : written_in_turn_)
        for_each_touched(output, [&](const ByteRun& run) { write(output, run); });
      if (!reads_first_) read();
      return;
    }
    const std::int64_t size = l + 1 == loops_ ? group_ : 1;
    for (std::int64_t i = 0; i < loop(l).extent && wrong_.empty(); i += size) {
      iteration_[l] = {i, std::min(i + size, loop(l).extent)};
      step(l + 1);
    }
  }

  void write(const WalkedRows& output, const ByteRun& run) {
    auto own = std::partition_point(output.written.begin(), output.written.end(),
                                    [&](const ByteRun& one) { return one.end <= run.begin; });
    for (; own != output.written.end() && own->begin < run.end; ++own)
      written_.add({std::max(own->begin, run.begin), std::min(own->end, run.end)});
  }

  void read() {
    for (std::size_t i = 0; i < read_.size() && wrong_.empty(); ++i)
      for_each_touched(read_[i], [&](const ByteRun& run) {
        if (wrong_.empty() && written_.touches(run)) wrong_ = described(i, run);
      });
  }

  std::string described(std::size_t i, const ByteRun& run) const {
    std::string text = "reads bytes [" + std::to_string(run.begin) + ", " + std::to_string(run.end) + ") of tensor " +
                       quoted(graph_.tensor(op_.inputs[inputs_[i].position]).name) + " in iteration ";
    for (std::size_t l = 0; l < iteration_.size(); ++l)
      text += (l > 0 ? ", " : "") + std::to_string(iteration_[l].begin) +
              (iteration_[l].size() > 1 ? " to " + std::to_string(iteration_[l].end - 1) : "");
    return text + " of its ordered loops, but has written there before";
  }

  const Graph& graph_;
  const Op& op_;
  const std::vector<WalkedTensor>& inputs_;
  const std::size_t loops_;  // the outermost of the ordered ones that are run
  const bool reads_first_;
  std::vector<WalkedRows> read_, written_in_turn_, written_first_;
  std::int64_t group_ = 1;
  bool has_hulls_ = false;           // all bytes from the first to the last that an iteration touches count as touched
  std::vector<RowRange> iteration_;  // per loop that is run
  WrittenBytes written_;
  std::string wrong_;
};

}  // namespace

std::string walk_rows(const Graph& graph, const Op& op, const std::vector<WalkedTensor>& inputs,
                      const std::vector<WalkedTensor>& outputs) {
  for (const auto& [tensors, positions] : {std::pair{&op.inputs, &inputs}, {&op.outputs, &outputs}})
    for (const WalkedTensor& walked : *positions)
      if (const Tensor& tensor = graph.tensor((*tensors)[walked.position]); !has_plain_rows(tensor))
        return "overlaps tensor " + quoted(tensor.name) + ", whose bytes are not those of its shape";
  const std::int64_t outermost = op.loops[at(op.ordered[0])].extent;
  std::string wrong = RowWalk(graph, op, inputs, outputs, 1, false).run(together(outermost, kMostWalked));
  if (wrong.empty() || (op.ordered.size() == 1 && !op.reads_first)) return wrong;
  std::int64_t count = 1;
  for (std::size_t l = 0; l < op.ordered.size(); ++l) {
    const std::int64_t extent = op.loops[at(op.ordered[l])].extent;
    if (extent > kMostWalked / count)
      return RowWalk(graph, op, inputs, outputs, l + 1, false).run(together(extent, kMostWalked / count));
    count *= extent;
  }
  return RowWalk(graph, op, inputs, outputs, op.ordered.size(), op.reads_first).run(1);
}

}  // namespace memplan
