#include "checks/row_walk.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kMostIterations = 1 << 24;

struct ByteRun {
  Bytes begin, end;
};

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

// The rows of one tensor that an iteration touches along an axis, or along axes that are taken together.
struct Rows {
  Axes axes;
  RowRange range;
};

// Calls f with each run of bytes of a tensor that lies in all of these rows; all its other axes are whole.
template <class F>
void for_each_run(const Tensor& tensor, std::vector<Rows> rows, Bytes begin, F&& f) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : *tensor.shape) elements *= extent;
  if (elements == 0) return;
  std::sort(rows.begin(), rows.end(), [](const Rows& a, const Rows& b) { return a.axes.first < b.axes.first; });
  // The inner bytes of each axis, from the last one on; then runs are laid out from the outermost on.
  struct Level {
    std::int64_t first, last;
    Bytes row;
  };
  std::vector<Level> levels;
  Bytes inner = tensor.bytes / elements;
  Index axis = static_cast<Index>(tensor.shape->size()) - 1;
  while (axis >= 0) {
    const auto limited = std::find_if(rows.begin(), rows.end(), [&](const Rows& r) { return r.axes.last == axis; });
    const Axes axes = limited == rows.end() ? Axes{axis, axis} : limited->axes;
    const std::int64_t all = memplan::rows_of(tensor, axes);
    const RowRange range = limited == rows.end() ? RowRange{0, all} : limited->range;
    if (range.empty()) return;
    levels.push_back({range.begin, range.end, inner});
    inner *= all;
    axis = axes.first - 1;
  }
  std::vector<ByteRun> runs = {{begin, begin + tensor.bytes / elements}};
  for (const Level& level : levels) {
    std::vector<ByteRun> next;
    for (const ByteRun& run : runs) {
      const Bytes length = run.end - run.begin;
      if (length == level.row && runs.size() == 1) {
        next.push_back({run.begin + level.first * level.row, run.begin + level.last * level.row});
        continue;
      }
      for (std::int64_t i = level.first; i < level.last; ++i)
        next.push_back({run.begin + i * level.row, run.end + i * level.row});
    }
    runs = std::move(next);
  }
  for (const ByteRun& run : runs) f(run);
}

class RowWalk {
 public:
  RowWalk(const Graph& graph, const Op& op, const std::vector<WalkedTensor>& inputs,
          const std::vector<WalkedTensor>& outputs, std::size_t loops, bool reads_first)
      : graph_(graph), op_(op), inputs_(inputs), outputs_(outputs), loops_(loops), reads_first_(reads_first) {}

  // Iterations of the innermost of these loops that are run as one; they live together.
  std::string run(std::int64_t group) {
    group_ = group;
    written_ = {};
    for (const WalkedTensor& output : outputs_)
      if (!is_written_in_turn(output.position)) write_whole(output);
    std::string wrong;
    std::vector<RowRange> iteration(loops_);
    step(0, iteration, wrong);
    return wrong;
  }

 private:
  const Loop& loop(std::size_t l) const { return op_.loops[at(op_.ordered[l])]; }

  void step(std::size_t l, std::vector<RowRange>& iteration, std::string& wrong) {
    if (l == loops_) {
      iterate(iteration, wrong);
      return;
    }
    const std::int64_t size = l + 1 == loops_ ? group_ : 1;
    for (std::int64_t i = 0; i < loop(l).extent && wrong.empty(); i += size) {
      iteration[l] = {i, std::min(i + size, loop(l).extent)};
      step(l + 1, iteration, wrong);
    }
  }

  void iterate(const std::vector<RowRange>& iteration, std::string& wrong) {
    const auto read = [&] {
      for (const WalkedTensor& input : inputs_)
        if (wrong.empty()) wrong = check(input, iteration);
    };
    read();
    for (const WalkedTensor& output : outputs_)
      if (is_written_in_turn(output.position)) write(output, iteration);
    if (!reads_first_) read();
  }

  static std::string text(const std::vector<RowRange>& iteration) {
    std::string text = " in iteration ";
    for (std::size_t l = 0; l < iteration.size(); ++l)
      text += (l > 0 ? ", " : "") + std::to_string(iteration[l].begin) +
              (iteration[l].size() > 1 ? " to " + std::to_string(iteration[l].end - 1) : "");
    return text + " of its ordered loops";
  }

  // What a loop adds to, or makes early, is there from the start, also where that loop is not run by itself.
  bool is_written_in_turn(std::size_t position) const {
    for (std::size_t l = 0; l < op_.ordered.size(); ++l)
      if (std::none_of(loop(l).writes.begin(), loop(l).writes.end(),
                       [&](const LoopWrite& write) { return at(write.output) == position; }))
        return false;
    return true;
  }

  std::vector<Rows> rows_of(const WalkedTensor& input, const std::vector<RowRange>& iteration) const {
    const Tensor& tensor = graph_.tensor(op_.inputs[input.position]);
    std::vector<Rows> rows;
    for (std::size_t l = 0; l < loops_; ++l)
      for (const LoopRead& read : loop(l).reads)
        if (at(read.input) == input.position)
          rows.push_back({read.axes, rows_read(read, iteration[l], memplan::rows_of(tensor, read.axes))});
    return rows;
  }

  std::string check(const WalkedTensor& input, const std::vector<RowRange>& iteration) const {
    const Tensor& tensor = graph_.tensor(op_.inputs[input.position]);
    std::string wrong;
    const auto look = [&](const ByteRun& run) {
      if (!wrong.empty() || !written_.touches(run)) return;
      wrong = "reads bytes [" + std::to_string(run.begin) + ", " + std::to_string(run.end) + ") of tensor " +
              quoted(tensor.name) + text(iteration) + ", but has written there before";
    };
    for_each_run(tensor, rows_of(input, iteration), input.begin, look);
    return wrong;
  }

  void write(const WalkedTensor& output, const std::vector<RowRange>& iteration) {
    const Tensor& tensor = graph_.tensor(op_.outputs[output.position]);
    std::vector<Rows> rows;
    for (std::size_t l = 0; l < loops_; ++l)
      for (const LoopWrite& write : loop(l).writes)
        if (at(write.output) == output.position)
          rows.push_back({write.axes, rows_written(write, iteration[l], memplan::rows_of(tensor, write.axes))});
    for_each_run(tensor, rows, output.begin, [&](const ByteRun& run) { written_.add(run); });
  }

  void write_whole(const WalkedTensor& output) {
    const Bytes bytes = graph_.tensor(op_.outputs[output.position]).bytes;
    if (bytes > 0) written_.add({output.begin, output.begin + bytes});
  }

  const Graph& graph_;
  const Op& op_;
  const std::vector<WalkedTensor>& inputs_;
  const std::vector<WalkedTensor>& outputs_;
  const std::size_t loops_;  // the outermost of the ordered ones that are run
  const bool reads_first_;
  std::int64_t group_ = 1;
  WrittenBytes written_;
};

}  // namespace

std::string walk_rows(const Graph& graph, const Op& op, const std::vector<WalkedTensor>& inputs,
                      const std::vector<WalkedTensor>& outputs) {
  for (const auto& [tensors, positions] : {std::pair{&op.inputs, &inputs}, {&op.outputs, &outputs}})
    for (const WalkedTensor& walked : *positions)
      if (const Tensor& tensor = graph.tensor((*tensors)[walked.position]); !has_plain_rows(tensor))
        return "overlaps tensor " + quoted(tensor.name) + ", whose bytes are not those of its shape";
  std::string wrong = RowWalk(graph, op, inputs, outputs, 1, false).run(1);
  if (wrong.empty() || (op.ordered.size() == 1 && !op.reads_first)) return wrong;
  std::int64_t count = 1;
  for (std::size_t l = 0; l < op.ordered.size(); ++l) {
    const std::int64_t extent = op.loops[at(op.ordered[l])].extent;
    if (extent > kMostIterations / count) {
      const std::int64_t group = (extent + kMostIterations / count - 1) / (kMostIterations / count);
      return RowWalk(graph, op, inputs, outputs, l + 1, false).run(group);
    }
    count *= extent;
  }
  return RowWalk(graph, op, inputs, outputs, op.ordered.size(), op.reads_first).run(1);
}

}  // namespace memplan
