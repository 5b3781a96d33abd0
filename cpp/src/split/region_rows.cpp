#include "split/region_rows.hpp"

#include <algorithm>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

RowRange united(const RowRange& a, const RowRange& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

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

RegionRows::RegionRows(const Graph& graph_, const Region& region_) : graph(graph_), region(region_) {
  const std::size_t count = region.ops.size();
  if (region.pieces < 1) throw GraphError("pieces of a region must be >= 1, got " + std::to_string(region.pieces));
  is_view.assign(count, false);
  is_before.assign(count, false);
  iterations.resize(count);
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
  for (std::size_t r = count; r-- > 0;) {
    iterations[r].resize(at(region.pieces));
    if (is_before[r]) continue;
    find_iterations(r);
    note_reads(r);
  }
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
  throw GraphError("op " + quoted(op(r).name) + " cannot be split: it " + why);
}

void RegionRows::check_op(std::size_t r) {
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
      for (const Index sum : sums)
        if (sum == t) refuse(r, "reads " + tensor() + ", to which the region adds until its end");
      continue;
    }
    reads_made = true;
    if (read == nullptr) {
      const bool viewed =
          std::any_of(op.aliases.begin(), op.aliases.end(), [&](const View& v) { return v.input == t; });
      if (!viewed) refuse(r, "reads " + tensor() + " whole, which the region makes by rows");
    } else if (read->axes != found->second.axes) {
      refuse(r, "reads " + tensor() + " along other axes than it is made");
    }
  }
  for (const EarlyOutput& early : loop.early)
    for (const Index i : early.inputs)
      if (made.contains(op.inputs[at(i)]))
        refuse(r, "needs " + quoted(graph.tensor(op.inputs[at(i)]).name) + " before it begins");
  for (const Index k : op.after)
    if (position.contains(k)) refuse(r, "runs after another op of the region by request");
  is_view[r] = !op.aliases.empty();
  is_before[r] = is_view[r] && !reads_made;
  if (!is_view[r]) return;
  const bool plain =
      op.aliases.size() == op.outputs.size() && loop.reads.size() == 1 && loop.sums.empty() && loop.early.empty();
  if (!plain || loop.reads.front().per != 1 || loop.reads.front().window != loop.reads.front().step)
    refuse(r, "is no view of consecutive rows of one tensor");
  for (const LoopWrite& write : loop.writes)
    if (write.step != loop.writes.front().step) refuse(r, "has views of several sizes of rows");
}

void RegionRows::add_outputs(std::size_t r) {
  const Op& op = this->op(r);
  for (const LoopWrite& write : loop(r).writes) {
    const Index t = op.outputs[at(write.output)];
    MadeByRows one;
    one.maker = static_cast<Index>(r);
    one.output = write.output;
    one.axes = write.axes;
    one.rows = rows_of(graph.tensor(t), write.axes);
    one.read.resize(at(region.pieces));
    one.written.resize(at(region.pieces));
    if (!is_view[r] && (one.rows == 0 || graph.tensor(t).bytes % one.rows != 0))
      refuse(r, "writes " + quoted(graph.tensor(t).name) + ", whose " + std::to_string(graph.tensor(t).bytes) +
                    " bytes are no multiple of its " + std::to_string(one.rows) + " rows");
    made.emplace(t, std::move(one));
  }
  for (const Index o : loop(r).sums) sums.push_back(op.outputs[at(o)]);
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

void RegionRows::find_iterations(std::size_t r) {
  const Op& op = this->op(r);
  const Loop& loop = this->loop(r);
  const Index steps = region.pieces;
  bool is_read = false, must_end = !loop.sums.empty();
  std::vector<RowRange> asked(at(steps));
  for (const LoopWrite& write : loop.writes) {
    const MadeByRows& one = made.at(op.outputs[at(write.output)]);
    if (!is_view[r]) must_end = must_end || one.leaves;
    for (std::size_t s = 0; s < asked.size(); ++s) {
      if (one.read[s].empty()) continue;
      is_read = true;
      asked[s] = united(asked[s], writing(write, one.read[s]));
    }
  }
  const bool again = is_view[r] || region.ops[r].again;
  if (again && !is_view[r] && must_end) refuse(r, "makes what leaves the region, so it cannot make rows again");
  if (!is_read && is_view[r]) return;  // what is outside reads the view of the whole
  std::int64_t done = 0;
  for (Index s = 0; s < steps; ++s) {
    RowRange& now = iterations[r][at(s)];
    if (again && is_read) {
      now = asked[at(s)];
    } else {
      std::int64_t end = is_read ? std::max(done, asked[at(s)].end) : loop.extent * (s + 1) / steps;
      if (s + 1 == steps && must_end) end = loop.extent;
      now = {done, end};
      done = end;
    }
    now.end = std::min(now.end, loop.extent);
    for (const LoopWrite& write : loop.writes) {
      MadeByRows& one = made.at(op.outputs[at(write.output)]);
      one.written[at(s)] = now.empty() ? RowRange{} : rows_written(write, now, one.rows);
    }
  }
}

void RegionRows::note_reads(std::size_t r) {
  for (const LoopRead& read : loop(r).reads) {
    const auto found = made.find(op(r).inputs[at(read.input)]);
    if (found == made.end()) continue;
    for (std::size_t s = 0; s < iterations[r].size(); ++s) {
      if (iterations[r][s].empty()) continue;
      RowRange& rows = found->second.read[s];
      rows = united(rows, rows_read(read, iterations[r][s], found->second.rows));
    }
  }
}

}  // namespace memplan
