#include "storage/row_times.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "storage/overlap.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kMostTimedRows = 1 << 20;
constexpr std::int64_t kMostRowLooks = 1 << 24;  // at pairs of rows
constexpr std::int64_t kMostRowRuns = std::int64_t{1} << 62;

using Iteration = std::int64_t;  // of all ordered loops, in the order in which they run
constexpr Iteration kNeverRead = -2;
constexpr Iteration kBeforeAll = -1;  // the first

// Rows of a tensor as far as loops tell them apart, and when they count.
struct TimedRows {
  Bytes bytes;                   // of a row
  std::vector<Iteration> times;  // per row

  std::int64_t count() const { return static_cast<std::int64_t>(times.size()); }
};

// Ordered loops, the outermost first; `weight` iterations of all loops are one of this.
struct LoopNest {
  std::vector<const Loop*> loops;
  std::vector<std::int64_t> weights;
};

std::optional<LoopNest> loop_nest_of(const Op& op) {
  LoopNest nest;
  std::int64_t count = 1;
  for (const Index l : op.ordered) nest.loops.push_back(&op.loops[at(l)]);
  nest.weights.resize(nest.loops.size());
  for (std::size_t l = nest.loops.size(); l-- > 0;) {
    nest.weights[l] = count;
    if (nest.loops[l]->extent > std::min(kMostTimedRows, kMostRowRuns / count)) return std::nullopt;
    count *= nest.loops[l]->extent;
  }
  return nest;
}

// The rows along some axes of a tensor, from one iteration of a loop; kNeverRead for rows that none touches.
struct RowsAlong {
  Axes axes;
  std::vector<std::int64_t> iteration;  // per row
};

std::vector<std::int64_t> last_reads(const LoopRead& read, std::int64_t extent, std::int64_t rows) {
  std::vector<std::int64_t> last(at(rows), kNeverRead);
  std::int64_t to = rows;  // rows from here on have been given
  for (std::int64_t i = extent; i-- > 0 && to > 0;) {
    const RowRange now = rows_read(read, {i, i + 1}, rows);
    for (std::int64_t row = now.begin; row < std::min(now.end, to); ++row) last[at(row)] = i;
    if (!now.empty()) to = std::min(to, now.begin);
    if (i > 0 && now.empty() && to < rows) break;  // before the first row
  }
  return last;
}

std::vector<std::int64_t> first_writes(const LoopWrite& write, std::int64_t rows) {
  std::vector<std::int64_t> first;
  for (std::int64_t row = 0; row < rows; ++row) first.push_back(row / write.step);
  return first;
}

// When rows count that lie along the axes of some loops; `start` is when they do by the other loops.
std::optional<TimedRows> timed_rows_of(const Graph& graph, Index t, const LoopNest& nest,
                                       std::vector<std::optional<RowsAlong>> along, Iteration start) {
  const Tensor& tensor = graph.tensor(t);
  const auto& shape = *tensor.shape;
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  Index last = -1;  // axis along which loops go
  for (const auto& one : along)
    if (one) last = std::max(last, one->axes.last);
  TimedRows rows{tensor.bytes / elements, {start}};
  for (Index axis = last + 1; axis < static_cast<Index>(shape.size()); ++axis) rows.bytes *= shape[at(axis)];
  if (tensor.bytes / rows.bytes > kMostTimedRows) return std::nullopt;
  for (Index axis = 0; axis <= last; ++axis) {  // each makes rows of the rows that there are
    const auto found =
        std::find_if(along.begin(), along.end(), [&](const auto& one) { return one && one->axes.first == axis; });
    std::vector<Iteration> finer;
    for (const Iteration time : rows.times) {
      if (found == along.end()) {
        finer.insert(finer.end(), at(shape[at(axis)]), time);
        continue;
      }
      const std::int64_t weight = nest.weights[static_cast<std::size_t>(found - along.begin())];
      for (const std::int64_t i : (*found)->iteration)
        finer.push_back(time == kNeverRead || i == kNeverRead ? kNeverRead : time + weight * i);
    }
    rows.times = std::move(finer);
    if (found != along.end()) axis = (*found)->axes.last;
  }
  return rows;
}

// When each row of the input at a position is read last.
std::optional<TimedRows> read_last(const Graph& graph, const Op& op, const LoopNest& nest, std::size_t position) {
  const Tensor& tensor = graph.tensor(op.inputs[position]);
  std::vector<std::optional<RowsAlong>> along(nest.loops.size());
  Iteration start = 0;
  for (std::size_t l = 0; l < nest.loops.size(); ++l) {
    const Loop& loop = *nest.loops[l];
    for (const LoopRead& read : loop.reads) {
      if (at(read.input) != position) continue;
      const std::int64_t rows = memplan::rows_of(tensor, read.axes);
      if (rows > kMostTimedRows) return std::nullopt;
      along[l] = {read.axes, last_reads(read, loop.extent, rows)};
    }
    if (!along[l]) start += nest.weights[l] * (loop.extent - 1);
  }
  return timed_rows_of(graph, op.inputs[position], nest, std::move(along), start);
}

// When each row of an output is written first.
std::optional<TimedRows> written_first(const Graph& graph, const Op& op, const LoopNest& nest, std::size_t position) {
  const Tensor& tensor = graph.tensor(op.outputs[position]);
  std::vector<std::optional<RowsAlong>> along(nest.loops.size());
  for (std::size_t l = 0; l < nest.loops.size(); ++l)
    for (const LoopWrite& write : nest.loops[l]->writes) {
      if (at(write.output) != position) continue;
      const std::int64_t rows = memplan::rows_of(tensor, write.axes);
      if (rows > kMostTimedRows) return std::nullopt;
      along[l] = {write.axes, first_writes(write, rows)};
    }
  const bool in_turn = std::all_of(along.begin(), along.end(), [](const auto& one) { return one.has_value(); });
  if (!in_turn) return TimedRows{tensor.bytes, {kBeforeAll}};
  return timed_rows_of(graph, op.outputs[position], nest, std::move(along), 0);
}

// An input whose rows are needed until some iteration, and an output whose rows are written from some iteration on; rows
// of both have as many bytes. Distances are from the beginning of the input to that of the output, in rows.
class TimedPair {
 public:
  TimedPair(const TimedRows& read, const TimedRows& written, bool reads_first)
      : read_(read), written_(written), reads_first_(reads_first) {}

  struct Found {
    std::int64_t most = 0;  // rows that the two have in common at a safe distance of these
    bool any = false;       // whether some distance is safe
    bool all_known = true;  // or so many distances are left to look at that it is not known
  };

  // What is safe from a distance on; at a distance between two rows, all is read and written that is at either.
  Found safe_from(std::int64_t first) const {
    const std::vector<std::int64_t> left = not_seen_at_once(first);
    const std::int64_t rows = std::min(read_.count(), written_.count());
    if (static_cast<std::int64_t>(left.size()) > kMostRowLooks / rows) return {0, true, false};
    Found found;
    for (const std::int64_t distance : left) {
      if (harms(distance)) continue;
      found.any = true;
      found.most = std::max(found.most, common(distance));
    }
    return found;
  }

  // Rows that they have in common at most: what is left of all, where the most is needed and written at once.
  std::int64_t most_in_common() const {
    std::vector<Iteration> reads = read_.times, writes = written_.times;
    std::sort(reads.begin(), reads.end());
    std::sort(writes.begin(), writes.end());
    std::int64_t most = std::max(read_.count(), written_.count());
    std::size_t dead = 0;
    for (std::size_t w = 0; w < writes.size(); ++w) {
      if (w + 1 < writes.size() && writes[w + 1] == writes[w]) continue;
      while (dead < reads.size() && !collide(writes[w], reads[dead])) ++dead;
      most = std::max(most, static_cast<std::int64_t>(w + 1 + reads.size() - dead));
    }
    return read_.count() + written_.count() - most;
  }

 private:
  bool collide(Iteration written, Iteration read) const { return reads_first_ ? written < read : written <= read; }
  bool collide_at(std::int64_t w, std::int64_t n) const {
    return w >= 0 && w < written_.count() && n >= 0 && n < read_.count() &&
           collide(written_.times[at(w)], read_.times[at(n)]);
  }
  std::int64_t common(std::int64_t distance) const {
    return std::min(distance + written_.count(), read_.count()) - std::max<std::int64_t>(distance, 0);
  }

  // The distances at which neither what is written first, nor what is needed last, nor the nearest ends do harm.
  std::vector<std::int64_t> not_seen_at_once(std::int64_t first) const {
    const auto written = std::min_element(written_.times.begin(), written_.times.end()) - written_.times.begin();
    const auto read = std::max_element(read_.times.begin(), read_.times.end()) - read_.times.begin();
    const std::int64_t end = written_at_the_nearest();
    std::vector<std::int64_t> left;
    for (std::int64_t d = first; d < read_.count(); ++d)
      if (!collide_at(written, written + d) && !collide_at(end, end + d) && !collide_at(read - d, read))
        left.push_back(d);
    return left;
  }

  // The row written by then, furthest ahead of the first that is needed.
  std::int64_t written_at_the_nearest() const {
    std::vector<std::int64_t> by_time(written_.times.size());
    std::iota(by_time.begin(), by_time.end(), 0);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [&](std::int64_t a, std::int64_t b) { return written_.times[at(a)] < written_.times[at(b)]; });
    std::vector<std::int64_t> highest;
    for (const std::int64_t w : by_time) highest.push_back(highest.empty() ? w : std::max(highest.back(), w));
    std::int64_t nearest = 0, ahead = std::numeric_limits<std::int64_t>::min();
    for (std::int64_t n = 0; n < read_.count(); ++n) {
      const auto until = std::partition_point(by_time.begin(), by_time.end(), [&](std::int64_t w) {
        return collide(written_.times[at(w)], read_.times[at(n)]);
      });
      if (until == by_time.begin()) continue;
      const std::int64_t w = highest[static_cast<std::size_t>(until - by_time.begin()) - 1];
      if (w - n <= ahead) continue;
      ahead = w - n;
      nearest = w;
    }
    return nearest;
  }

  bool harms(std::int64_t distance) const {
    for (std::int64_t w = std::max<std::int64_t>(0, -distance); w < written_.count() && w + distance < read_.count();
         ++w)
      if (collide_at(w, w + distance)) return true;
    return false;
  }

  const TimedRows& read_;
  const TimedRows& written_;
  const bool reads_first_;
};

// The same in rows of fewer bytes; no value if they are too many.
std::optional<TimedRows> in_rows_of(Bytes bytes, const TimedRows& rows) {
  const std::int64_t parts = rows.bytes / bytes;
  if (parts > kMostTimedRows / rows.count()) return std::nullopt;
  TimedRows finer{bytes, {}};
  for (const Iteration time : rows.times) finer.times.insert(finer.times.end(), at(parts), time);
  return finer;
}

// When rows of a tensor are read last, wherever it is among the inputs.
std::optional<TimedRows> read_last(const Graph& graph, const Op& op, const LoopNest& nest, Index t) {
  std::optional<TimedRows> all;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != t) continue;
    std::optional<TimedRows> rows = read_last(graph, op, nest, i);
    if (!rows) return std::nullopt;
    if (!all) {
      all = std::move(rows);
      continue;
    }
    const Bytes bytes = std::gcd(all->bytes, rows->bytes);
    std::optional<TimedRows> both = in_rows_of(bytes, *all), more = in_rows_of(bytes, *rows);
    if (!both || !more) return std::nullopt;
    for (std::int64_t n = 0; n < both->count(); ++n)
      both->times[at(n)] = std::max(both->times[at(n)], more->times[at(n)]);
    all = std::move(both);
  }
  return all;
}

// What a dying input and an output of an op have in common; no value for what never meets. `by_ends`: where they may
// meet by the ends, if anywhere.
std::optional<CommonBytes> common_of(const Graph& graph, const Op& op, Index input, Index output,
                                     const std::optional<TimedRows>& read, const std::optional<TimedRows>& written,
                                     const Overlap* by_ends) {
  const Bytes made = graph.tensor(output).bytes;
  const CommonBytes unknown{input, output, std::min(graph.tensor(input).bytes, made), false};
  if (!read || !written || !op.slices.empty() || !op.concats.empty()) return unknown;  // some copies are not written
  const Bytes bytes = std::gcd(read->bytes, written->bytes);
  const std::optional<TimedRows> reads = in_rows_of(bytes, *read), writes = in_rows_of(bytes, *written);
  if (!reads || !writes) return unknown;
  const TimedPair pair(*reads, *writes, op.reads_first);
  const Bytes ahead = by_ends == nullptr ? made : by_ends->ahead;
  const TimedPair::Found found = pair.safe_from(1 - ahead / bytes);
  if (!found.all_known) return CommonBytes{input, output, bytes * pair.most_in_common(), false};
  const Bytes most = std::max(by_ends == nullptr ? 0 : by_ends->most(graph), bytes * found.most);
  if (most == 0) return std::nullopt;
  return CommonBytes{input, output, most, !found.any};
}

}  // namespace

std::vector<CommonBytes> common_bytes(const Graph& graph, Index k, std::span<const Index> inputs) {
  const Op& op = graph.op(k);
  std::vector<CommonBytes> found;
  if (!may_overlap(op) || inputs.empty()) return found;
  const std::optional<LoopNest> nest = loop_nest_of(op);
  const std::vector<Overlap> overlaps = overlaps_of(graph, k);
  std::vector<std::optional<TimedRows>> written(op.outputs.size());
  for (std::size_t o = 0; o < op.outputs.size(); ++o)
    if (nest && is_dense(graph.tensor(op.outputs[o]))) written[o] = written_first(graph, op, *nest, o);
  std::vector<Index> known;
  for (const Index t : inputs) {
    if (!is_dense(graph.tensor(t)) || std::find(known.begin(), known.end(), t) != known.end()) continue;
    known.push_back(t);
    const std::optional<TimedRows> read = nest ? read_last(graph, op, *nest, t) : std::nullopt;
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const Index output = op.outputs[o];
      if (!is_dense(graph.tensor(output))) continue;
      const auto by_ends = std::find_if(overlaps.begin(), overlaps.end(), [&](const Overlap& overlap) {
        return overlap.input == t && overlap.output == output;
      });
      const Overlap* ends = by_ends == overlaps.end() ? nullptr : &*by_ends;
      if (const auto common = common_of(graph, op, t, output, read, written[o], ends)) found.push_back(*common);
    }
  }
  return found;
}

bool has_all_overlaps(const Graph& graph, const HappensBefore& order) {
  const bool overlaps = order.total() && !graph.branches();
  const std::vector<Span> lives = lives_of(graph);
  for (Index k = 0; k < graph.op_count(); ++k) {
    if (!may_overlap(graph.op(k))) continue;
    for (const CommonBytes& common : common_bytes(graph, k, dying_at(graph, k, lives)))
      if (!overlaps || !common.by_the_ends) return false;
  }
  return true;
}

}  // namespace memplan
