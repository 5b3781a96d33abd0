#include "split/needed_rows.hpp"

#include <algorithm>

namespace memplan {

namespace {

// The same rows as ranges that ascend and do not meet.
std::vector<RowRange> united(std::vector<RowRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  std::vector<RowRange> found;
  for (const RowRange& range : ranges) {
    if (range.empty()) continue;
    if (!found.empty() && range.begin <= found.back().end)
      found.back().end = std::max(found.back().end, range.end);
    else
      found.push_back(range);
  }
  return found;
}

// The rows that are in both.
std::vector<RowRange> common(const std::vector<RowRange>& a, const std::vector<RowRange>& b) {
  std::vector<RowRange> found;
  for (auto one = a.begin(), other = b.begin(); one != a.end() && other != b.end();) {
    const RowRange both{std::max(one->begin, other->begin), std::min(one->end, other->end)};
    if (!both.empty()) found.push_back(both);
    if (one->end < other->end)
      ++one;
    else
      ++other;
  }
  return found;
}

}  // namespace

NeededRows::NeededRows(const Links& links)
    : links_(links),
      is_output_(links.graph.tensors().size(), false),
      runs_(links.graph.ops().size(), false),
      iterations_(links.graph.ops().size()) {
  for (const Index t : links.graph.outputs()) is_output_[at(t)] = true;
  for (Index k = links.graph.op_count(); k-- > 0;) {
    const Op& op = links.graph.op(k);
    runs_[at(k)] = op.outputs.empty() || !op.overwrites.empty() ||
                   std::any_of(op.outputs.begin(), op.outputs.end(), [&](Index t) { return any_of(t); });
    if (op.overwrites.empty())  // others run whole
      for (const Loop& loop : op.loops) iterations_[at(k)].push_back(iterations_of(op, loop));
  }
}

NeededRows::Some NeededRows::iterations_of(const Op& op, const Loop& loop) const {
  if (std::any_of(loop.sums.begin(), loop.sums.end(), [&](Index o) { return any_of(op.outputs[at(o)]); }))
    return {{0, loop.extent}};
  Some found;
  for (const LoopWrite& write : loop.writes)
    for (const RowRange& needed : rows(op.outputs[at(write.output)], write.axes)) {
      const std::int64_t end = std::min(loop.extent, (needed.end - 1) / write.step + 1);
      if (needed.begin / write.step < end) found.push_back({needed.begin / write.step, end});
    }
  return united(std::move(found));
}

std::int64_t NeededRows::count(Index tensor, const std::optional<Axes>& axes) const {
  return axes ? rows_of(links_.graph.tensor(tensor), *axes) : 1;
}

// The rows of a tensor that are needed; without axes, whether any is.
NeededRows::Some NeededRows::rows(Index tensor, const std::optional<Axes>& axes) const {
  const RowRange all{0, count(tensor, axes)};
  if (is_output_[at(tensor)]) return united({all});
  Some found;
  for (const Index k : links_.readers[at(tensor)]) {
    if (!runs_[at(k)]) continue;
    Some read = {all};
    for (std::size_t l = 0; l < iterations_[at(k)].size(); ++l) read = common(read, rows_read(k, l, tensor, axes));
    found.insert(found.end(), read.begin(), read.end());
  }
  return united(std::move(found));
}

// Those that needed iterations read. Along other axes than those of the loop, a row may be needed in part.
NeededRows::Some NeededRows::rows_read(Index reader, std::size_t l, Index tensor,
                                       const std::optional<Axes>& axes) const {
  const Op& op = links_.graph.op(reader);
  const Loop& loop = op.loops[l];
  const Some all = {{0, count(tensor, axes)}};
  Some found;
  for (std::size_t input = 0; input < op.inputs.size(); ++input) {
    if (op.inputs[input] != tensor) continue;
    const auto read =
        std::find_if(loop.reads.begin(), loop.reads.end(), [&](const LoopRead& one) { return at(one.input) == input; });
    const bool early = std::any_of(loop.early.begin(), loop.early.end(), [&](const EarlyOutput& one) {
      return std::find(one.inputs.begin(), one.inputs.end(), static_cast<Index>(input)) != one.inputs.end();
    });
    const bool counts = loop.statistics && std::ranges::find(loop.statistics->inputs, static_cast<Index>(input)) !=
                                               loop.statistics->inputs.end();
    if (early || counts || read == loop.reads.end()) return all;
    const std::int64_t rows = rows_of(links_.graph.tensor(tensor), read->axes);
    const auto add = [&](const RowRange& iterations) {
      const RowRange some = memplan::rows_read(*read, iterations, rows);
      if (!some.empty()) found.push_back(some);
    };
    for (const RowRange& runs : iterations_[at(reader)][l]) {
      if (read->step <= read->window)  // windows leave no row out
        add(runs);
      else
        for (std::int64_t i = runs.begin; i < runs.end; ++i) add({i, i + 1});
    }
    if (!found.empty() && (!axes || *axes != read->axes)) return all;
  }
  return united(std::move(found));
}

}  // namespace memplan
