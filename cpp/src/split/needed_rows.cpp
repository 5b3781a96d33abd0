#include "split/needed_rows.hpp"

#include <algorithm>

namespace memplan {

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
  const bool adds = std::any_of(loop.sums.begin(), loop.sums.end(), [&](Index o) { return any_of(op.outputs[at(o)]); });
  Some found(at(loop.extent), adds);
  if (adds) return found;
  for (const LoopWrite& write : loop.writes) {
    const Some needed = rows(op.outputs[at(write.output)], write.axes);
    for (std::size_t row = 0; row < needed.size(); ++row)
      if (const std::size_t i = row / at(write.step); needed[row] && i < found.size()) found[i] = true;
  }
  return found;
}

std::size_t NeededRows::count(Index tensor, const std::optional<Axes>& axes) const {
  return axes ? at(rows_of(links_.graph.tensor(tensor), *axes)) : 1;
}

// The rows of a tensor that are needed; without axes, whether any is.
NeededRows::Some NeededRows::rows(Index tensor, const std::optional<Axes>& axes) const {
  Some found(count(tensor, axes), is_output_[at(tensor)]);
  for (const Index k : links_.readers[at(tensor)]) {
    if (!runs_[at(k)]) continue;
    Some read(found.size(), true);
    for (std::size_t l = 0; l < iterations_[at(k)].size(); ++l) {
      const Some by = rows_read(k, l, tensor, axes);
      for (std::size_t row = 0; row < by.size(); ++row) read[row] = read[row] && by[row];
    }
    for (std::size_t row = 0; row < read.size(); ++row) found[row] = found[row] || read[row];
  }
  return found;
}

// Those that needed iterations read. Along other axes than those of the loop, a row may be needed in part.
NeededRows::Some NeededRows::rows_read(Index reader, std::size_t l, Index tensor,
                                       const std::optional<Axes>& axes) const {
  const Op& op = links_.graph.op(reader);
  const Loop& loop = op.loops[l];
  Some found(count(tensor, axes), false);
  for (std::size_t input = 0; input < op.inputs.size(); ++input) {
    if (op.inputs[input] != tensor) continue;
    const auto read =
        std::find_if(loop.reads.begin(), loop.reads.end(), [&](const LoopRead& one) { return at(one.input) == input; });
    const bool early = std::any_of(loop.early.begin(), loop.early.end(), [&](const EarlyOutput& one) {
      return std::find(one.inputs.begin(), one.inputs.end(), static_cast<Index>(input)) != one.inputs.end();
    });
    const Some all(found.size(), true);
    if (early || read == loop.reads.end()) return all;
    const std::int64_t rows = rows_of(links_.graph.tensor(tensor), read->axes);
    const Some& runs = iterations_[at(reader)][l];
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i]) continue;
      const auto first = static_cast<std::int64_t>(i);
      const RowRange some = memplan::rows_read(*read, {first, first + 1}, rows);
      if (some.empty()) continue;
      if (!axes || *axes != read->axes) return all;
      std::fill(found.begin() + some.begin, found.begin() + some.end, true);
    }
  }
  return found;
}

}  // namespace memplan
