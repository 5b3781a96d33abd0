#include "split/region_rows.hpp"

#include <algorithm>
#include <cmath>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

const LoopRead* read_of(const Loop& loop, std::size_t input) {
  for (const LoopRead& read : loop.reads)
    if (at(read.input) == input) return &read;
  return nullptr;
}

// Iterations that write these rows.
RowRange writing(const LoopWrite& write, const RowRange& rows) {
  return {rows.begin / write.step, (rows.end + write.step - 1) / write.step};
}

}  // namespace

std::int64_t RowUses::needed_from(Index visit) const {
  const auto next = std::lower_bound(read.begin(), read.end(), visit,
                                     [](const RowsAt& one, Index before) { return one.visit < before; });
  return next == read.end() ? kMaxBytes : from[at(next - read.begin())];
}

RowRange RowUses::written_at(Index visit) const { return written_from(visit)->rows; }

std::vector<RowsAt>::const_iterator RowUses::written_from(Index visit) const {
  return std::lower_bound(written.begin(), written.end(), visit,
                          [](const RowsAt& one, Index before) { return one.visit < before; });
}

std::int64_t RowUses::first_held(Index visit) const { return std::min(written_at(visit).begin, needed_from(visit)); }

std::int64_t RowUses::room_from(Index visit) const {
  std::int64_t most = 0, end = -1;
  for (auto next = written_from(visit); next != written.end(); ++next) {
    const std::int64_t begin = first_held(next->visit);
    if (end >= 0 && begin >= end) break;
    most = std::max(most, next->rows.end - begin);
    end = next->rows.end;
  }
  return most;
}

RegionRows::RegionRows(const Graph& graph_, const Region& region_) : graph(graph_), region(region_) {
  const std::size_t count = region.ops.size();
  if (region.pieces < 1) throw GraphError("pieces of a region must be >= 1, got " + std::to_string(region.pieces));
  is_view.assign(count, false);
  is_before.assign(count, false);
  pass.assign(count, 0);
  statistics_pass.assign(count, kNone);
  for (std::size_t r = 0; r < count; ++r) {
    if (region.ops[r].op < 0 || region.ops[r].op >= graph.op_count())
      throw GraphError("the graph has no op " + std::to_string(region.ops[r].op));
    if (r > 0 && region.ops[r].op <= region.ops[r - 1].op) throw GraphError("ops of a region must ascend");
    position.emplace(region.ops[r].op, static_cast<Index>(r));
  }
  for (std::size_t r = 0; r < count; ++r) {
    check_op(r);
    if (!is_before[r]) add_outputs(r);
  }
  find_leaving();
  find_base();
  find_passes();
}

void RegionRows::find_base() {
  for (std::size_t r = 0; r < region.ops.size(); ++r) {
    const std::int64_t extent = loop(r).extent;
    const std::int64_t largest = (extent + region.pieces - 1) / region.pieces;
    if (extent < region.pieces || 8 * largest * region.pieces > 9 * extent) continue;  // steps would be less equal
    if (base_ == 0 || extent < base_) base_ = extent;
  }
}

std::int64_t RegionRows::end_of_step(std::size_t r, Index step) const {
  const std::int64_t extent = loop(r).extent;
  if (base_ == 0 || extent % base_ != 0) return extent * step / region.pieces;
  return extent / base_ * (base_ * step / region.pieces);
}

std::int64_t RegionRows::row_of_view(std::size_t r, std::int64_t row) const {
  const LoopRead& read = loop(r).reads.front();
  const LoopWrite& write = loop(r).writes.front();
  if ((row + read.before) % read.step != 0)
    refuse(r, "is a view of " + std::to_string(read.step) + " rows in each, and would begin at row " +
                  std::to_string(row));
  return (row + read.before) / read.step * write.step;
}

void RegionRows::refuse(std::size_t r, const std::string& why) const {
  throw RegionError("op " + quoted(op(r).name) + " cannot be split: it " + why);
}

void RegionRows::check_op(std::size_t r) {
  if (runs_whole(r)) return check_whole(r);
  const Op& op = this->op(r);
  const Index asked = region.ops[r].loop;
  if (asked < 0 || at(asked) >= op.loops.size())
    refuse(r, "has " + std::to_string(op.loops.size()) + " loops, and none is number " + std::to_string(asked));
  if (!op.overwrites.empty()) refuse(r, "overwrites its input");
  const Loop& loop = this->loop(r);
  bool reads_made = false;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Index t = op.inputs[i];
    const auto tensor = [&] { return quoted(graph.tensor(t).name); };
    const auto found = made.find(t);
    const LoopRead* read = read_of(loop, i);
    if (found == made.end()) {
      const auto whole = whole_from.find(t);
      if (whole == whole_from.end() || whole->second == 0) continue;
      if (!op.aliases.empty()) refuse(r, "is a view of " + tensor() + ", which is whole only after a pass");
      pass[r] = std::max(pass[r], whole->second);
      continue;
    }
    reads_made = true;
    pass[r] = std::max(pass[r], pass[at(found->second.maker)]);
    if (read == nullptr) {
      const bool viewed =
          std::any_of(op.aliases.begin(), op.aliases.end(), [&](const View& v) { return v.input == t; });
      if (!viewed) refuse(r, "reads " + tensor() + " whole, which the region makes by rows");
    } else if (read->axes != found->second.axes) {
      refuse(r, "reads " + tensor() + " along other axes than it is made");
    }
  }
  if (loop.statistics)
    for (const Index i : loop.statistics->inputs) {
      const auto found = made.find(op.inputs[at(i)]);
      const auto whole = whole_from.find(op.inputs[at(i)]);
      if (found != made.end()) statistics_pass[r] = std::max(statistics_pass[r], pass[at(found->second.maker)]);
      if (whole != whole_from.end() && whole->second > 0)
        statistics_pass[r] = std::max(statistics_pass[r], whole->second);
    }
  for (const EarlyOutput& early : loop.early)
    for (const Index i : early.inputs) {
      const Index t = op.inputs[at(i)];
      const auto whole = whole_from.find(t);
      if (made.contains(t) || (whole != whole_from.end() && whole->second > statistics_pass[r] + 1))
        refuse(r, "needs " + quoted(graph.tensor(t).name) + " before it begins");
    }
  if (loop.statistics) pass[r] = std::max(pass[r], statistics_pass[r] + 1);
  for (const Index k : op.after)
    if (position.contains(k)) refuse(r, "runs after another op of the region by request");
  is_view[r] = !op.aliases.empty();
  is_before[r] = is_view[r] && !reads_made;
  if (!is_view[r]) return;
  for (const LoopRead& read : loop.reads)
    if (reads_made && !made.contains(op.inputs[at(read.input)]))
      refuse(r, "is a view of " + quoted(graph.tensor(op.inputs[at(read.input)]).name) +
                    ", and the region makes the bytes of that by rows, but not that");
  const bool plain =
      op.aliases.size() == op.outputs.size() && loop.reads.size() == 1 && loop.sums.empty() && loop.early.empty();
  if (!plain || loop.reads.front().per != 1 || loop.reads.front().window != loop.reads.front().step)
    refuse(r, "is no view of consecutive rows of one tensor");
  for (const LoopWrite& write : loop.writes)
    if (write.step != loop.writes.front().step) refuse(r, "has views of several sizes of rows");
}

// It runs when all that it reads is whole.
void RegionRows::check_whole(std::size_t r) {
  const Op& op = this->op(r);
  for (const Index t : op.inputs) {
    if (made.contains(t)) refuse(r, "reads " + quoted(graph.tensor(t).name) + " whole, which the region makes by rows");
    const auto whole = whole_from.find(t);
    if (whole != whole_from.end()) pass[r] = std::max(pass[r], whole->second);
  }
  if (!op.overwrites.empty()) refuse(r, "overwrites its input");
  for (const Index k : op.after)
    if (position.contains(k)) refuse(r, "runs after another op of the region by request");
}

void RegionRows::add_outputs(std::size_t r) {
  const Op& op = this->op(r);
  if (runs_whole(r)) {
    for (const Index t : op.outputs) whole_from[t] = pass[r];
    return;
  }
  for (const LoopWrite& write : loop(r).writes) {
    const Index t = op.outputs[at(write.output)];
    MadeByRows one;
    one.maker = static_cast<Index>(r);
    one.axes = write.axes;
    one.rows = rows_of(graph.tensor(t), write.axes);
    if (!is_view[r] && (one.rows == 0 || graph.tensor(t).bytes % one.rows != 0))
      refuse(r, "writes " + quoted(graph.tensor(t).name) + ", whose " + std::to_string(graph.tensor(t).bytes) +
                    " bytes are no multiple of its " + std::to_string(one.rows) + " rows");
    made.emplace(t, std::move(one));
  }
  for (const Index o : loop(r).sums) whole_from[op.outputs[at(o)]] = pass[r] + 1;
  for (const EarlyOutput& early : loop(r).early) whole_from[op.outputs[at(early.output)]] = statistics_pass[r] + 1;
  for (const View& view : op.aliases) {
    const auto found = root.find(view.input);
    root[view.output] = found == root.end() ? view.input : found->second;
  }
}

void RegionRows::find_leaving() {
  for (Index k = 0; k < graph.op_count(); ++k)
    if (!position.contains(k))
      for (const Index t : graph.op(k).inputs) leave(t);
  for (const Index t : graph.outputs()) leave(t);
}

// A view that is used outside is made there, of what it is a view of.
void RegionRows::leave(Index t) {
  const auto found = made.find(t);
  if (found == made.end() || found->second.leaves) return;
  found->second.leaves = true;
  if (!is_view[at(found->second.maker)]) return;
  for (const Index base : op(at(found->second.maker)).inputs) leave(base);
}

// Whether iterations make anything, besides statistics.
bool RegionRows::has_parts(std::size_t r) const {
  if (runs_whole(r)) return false;
  return !loop(r).statistics || !loop(r).writes.empty() || !loop(r).sums.empty();
}

// Whether an earlier pass has made all rows, which stay.
bool RegionRows::is_whole_in(Index t, Index number) const {
  const MadeByRows& one = made.at(t);
  return one.leaves && !is_view[at(one.maker)] && pass[at(one.maker)] < number;
}

// The tensors made by rows that iterations read, for the statistics or for the rest.
template <class Use>
void RegionRows::for_rows_read(std::size_t r, bool statistics, const Use& use) const {
  for (const LoopRead& read : loop(r).reads) {
    const Index t = op(r).inputs[at(read.input)];
    if (!made.contains(t)) continue;
    if (statistics && std::ranges::find(loop(r).statistics->inputs, read.input) == loop(r).statistics->inputs.end())
      continue;
    use(t, read);
  }
}

void RegionRows::find_passes() {
  const std::size_t count = region.ops.size();
  is_read_.assign(count, false);
  last_pass_.assign(count, kNone);
  Index last = 0;
  for (std::size_t r = 0; r < count; ++r) {
    if (is_before[r]) continue;
    for (const bool statistics : {false, true})
      if (!statistics || statistics_pass[r] != kNone)
        for_rows_read(r, statistics, [&](Index t, const LoopRead&) { is_read_[at(made.at(t).maker)] = true; });
    last = std::max(last, has_parts(r) ? pass[r] : runs_whole(r) ? pass[r] - 1 : statistics_pass[r]);
  }
  for (Index number = 0; number <= last; ++number) make_pass(number, number == last);
  std::ranges::sort(reruns);
  reruns.erase(std::unique(reruns.begin(), reruns.end()), reruns.end());
}

void RegionRows::make_pass(Index number, bool is_last) {
  const std::size_t count = region.ops.size();
  number_ = number;
  passes.emplace_back();
  done_.assign(2 * count, 0);
  last_visit_.assign(count, kNone);
  // Ends: the ops for whose results this pass is made. Others run if one that runs reads their rows.
  std::vector<bool> is_end(count, false), runs(count, false), is_read(count, false);
  for (std::size_t r = count; r-- > 0;) {
    if (is_before[r]) continue;
    bool leaves = false;
    for (const LoopWrite& write : loop(r).writes) leaves = leaves || made.at(op(r).outputs[at(write.output)]).leaves;
    const bool must_end = !loop(r).sums.empty() || leaves;
    if (region.ops[r].again && must_end && !is_view[r])
      refuse(r, "makes what leaves the region, so it cannot make rows again");
    is_end[r] = pass[r] == number && has_parts(r) && !is_view[r] && (must_end || !is_read_[r]);
    runs[r] = is_end[r] || is_read[r];
    for (const bool statistics : {false, true})
      if (statistics ? statistics_pass[r] == number : runs[r])
        for_rows_read(r, statistics, [&](Index t, const LoopRead&) {
          if (!is_whole_in(t, number)) is_read[at(made.at(t).maker)] = true;
        });
  }
  for (Index step = 1; step <= region.pieces; ++step)
    for (std::size_t r = 0; r < count; ++r) {
      const std::int64_t until = end_of_step(r, step);
      if (statistics_pass[r] == number) run_until(r, until, true);
      if (is_end[r] && !is_read[r]) run_until(r, until);
    }
  for (std::size_t r = 0; r < count; ++r) {
    const bool never = is_last && !is_before[r] && !is_view[r] && has_parts(r) && last_pass_[r] == kNone;
    if (is_end[r] || never) run_until(r, loop(r).extent);
  }
  for (auto& [t, one] : passes.back().uses) {
    one.from.resize(one.read.size());
    std::int64_t from = kMaxBytes;
    for (std::size_t i = one.read.size(); i-- > 0;) one.from[i] = from = std::min(from, one.read[i].rows.begin);
  }
}

// Runs what is missing, in about equal parts, none of which is much more than the share of a step.
void RegionRows::run_until(std::size_t r, std::int64_t end, bool statistics) {
  std::int64_t& done = done_[statistics ? region.ops.size() + r : r];
  end = std::min(end, loop(r).extent);
  if (done >= end) return;
  const std::int64_t share = (loop(r).extent + region.pieces - 1) / region.pieces;
  const std::int64_t missing = end - done;
  const std::int64_t parts = std::max<std::int64_t>(1, (2 * missing + 3 * share - 1) / (3 * share));
  const std::int64_t begin = done;
  for (std::int64_t part = 1; part <= parts; ++part) {
    const std::int64_t until = begin + missing * part / parts;
    if (until <= done) continue;  // pulling may have run it
    const RowRange now{done, until};
    pull(r, now, statistics);
    visit(r, now, statistics);
    done = until;
  }
}

void RegionRows::visit(std::size_t r, RowRange iterations, bool statistics) {
  Pass& now = passes.back();
  const Index number = static_cast<Index>(now.visits.size());
  now.visits.push_back({static_cast<Index>(r), iterations, statistics});
  for_rows_read(r, statistics, [&](Index t, const LoopRead& read) {
    const RowRange rows = rows_read(read, iterations, made.at(t).rows);
    if (!rows.empty()) now.uses[t].read.push_back({number, rows});
  });
  if (statistics) return;
  last_visit_[r] = number;
  if (last_pass_[r] != kNone && last_pass_[r] != number_ && !is_view[r]) {
    if (!loop(r).sums.empty()) refuse(r, "adds to a sum, so it cannot run in two passes");
    reruns.push_back(region.ops[r].op);
  }
  last_pass_[r] = number_;
  for (const LoopWrite& write : loop(r).writes) {
    const Index t = op(r).outputs[at(write.output)];
    now.uses[t].written.push_back({number, rows_written(write, iterations, made.at(t).rows)});
  }
}

// Makes all rows that these iterations read. To make some may move others away, which are then made once more.
void RegionRows::pull(std::size_t r, RowRange iterations, bool statistics) {
  constexpr int kTries = 4;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::size_t before = passes.back().visits.size();
    for_rows_read(r, statistics, [&](Index t, const LoopRead& read) {
      const RowRange rows = rows_read(read, iterations, made.at(t).rows);
      if (!rows.empty()) pull(t, rows);
    });
    if (passes.back().visits.size() == before) return;
  }
  refuse(r, "reads rows that are made again and again");
}

void RegionRows::pull(Index t, RowRange rows) {
  if (is_whole_in(t, number_)) return;
  const std::size_t r = at(made.at(t).maker);
  RowRange iterations;
  for (const LoopWrite& write : loop(r).writes)
    if (op(r).outputs[at(write.output)] == t) iterations = writing(write, rows);
  iterations.end = std::min(iterations.end, loop(r).extent);
  if (!is_view[r] && !region.ops[r].again) return run_until(r, iterations.end);
  if (is_view[r]) pull(r, iterations);
  if (is_there(r, iterations)) return;
  if (!is_view[r]) pull(r, iterations);
  visit(r, iterations);
}

// Whether it reads what the other makes, or a view of it.
bool RegionRows::reads_from(std::size_t reader, std::size_t maker) const {
  return std::any_of(op(reader).inputs.begin(), op(reader).inputs.end(), [&](Index t) {
    const auto view = root.find(t);
    const auto found = made.find(view == root.end() ? t : view->second);
    return found != made.end() && at(found->second.maker) == maker;
  });
}

// Whether what the last visit made is still there, and enough. Of rows that are made again, only those are still there
// that nobody but their readers has run after: to keep them for longer takes their bytes.
bool RegionRows::is_there(std::size_t r, RowRange iterations) const {
  const Index last = last_visit_[r];
  if (last == kNone) return false;
  const std::vector<Visit>& visits = passes.back().visits;
  const RowRange& made_last = visits[at(last)].iterations;
  if (iterations.begin < made_last.begin || iterations.end > made_last.end) return false;
  if (!is_view[r])
    return std::all_of(visits.begin() + last + 1, visits.end(),
                       [&](const Visit& visit) { return reads_from(at(visit.op), r); });
  const Index base = op(r).inputs[at(loop(r).reads.front().input)];
  return last_visit_[at(made.at(base).maker)] < last;
}

bool lie_scattered(const Tensor& tensor, const Axes& axes) {
  return std::any_of(tensor.shape->begin(), tensor.shape->begin() + axes.first, [](std::int64_t n) { return n > 1; });
}

Bytes workspace_of_piece(const Graph& graph, const Op& op, const Loop& loop, RowRange iterations) {
  double share = static_cast<double>(iterations.size()) / static_cast<double>(loop.extent);
  for (const LoopRead& read : loop.reads) {
    const std::int64_t rows = rows_of(graph.tensor(op.inputs[at(read.input)]), read.axes);
    const std::int64_t needed = rows_read(read, iterations, rows).size();
    if (rows > 0) share = std::max(share, static_cast<double>(needed) / static_cast<double>(rows));
  }
  const Bytes whole = std::min(op.workspace, loop.workspace);
  return whole + static_cast<Bytes>(std::ceil(static_cast<double>(op.workspace - whole) * share));
}

}  // namespace memplan
