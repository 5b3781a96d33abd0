#include "split/inplace_rows.hpp"

#include <algorithm>
#include <optional>

#include "storage/sharing.hpp"

namespace memplan {

namespace {

class InplaceRows {
 public:
  InplaceRows(const RegionRows& rows, const StorageOptions& options, const std::vector<bool>& ran)
      : rows_(rows), graph_(rows.graph), options_(options), ends_here_(graph_.tensors().size(), true) {
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      ends_here_[at(t)] =
          graph_.tensor(t).kind == TensorKind::intermediate && !rows.made.contains(t) && !rows.whole_from.contains(t);
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const Op& op = graph_.op(k);
      for (const auto* views : {&op.aliases, &op.overwrites})
        for (const View& view : *views) ends_here_[at(view.input)] = ends_here_[at(view.output)] = false;
      if (ran[at(k)] || rows.position.contains(k)) continue;
      for (const Index t : op.inputs) ends_here_[at(t)] = false;
      for (const Index t : op.outputs) ends_here_[at(t)] = false;
    }
  }

  std::unordered_map<Index, Index> found() {
    std::unordered_map<Index, Index> over;
    for (std::size_t r = 0; r < rows_.region.ops.size(); ++r) {
      if (rows_.is_view[r] || is_disabled(rows_.op(r), options_)) continue;
      for (const LoopWrite& write : rows_.loop(r).writes) {
        const Index t = rows_.op(r).outputs[at(write.output)];
        if (!rows_.made.at(t).leaves || graph_.tensor(t).kind != TensorKind::intermediate) continue;
        const std::optional<Index> x = place_for(t);
        if (!x) continue;
        over.emplace(t, *x);
        ends_here_[at(*x)] = false;
      }
    }
    return over;
  }

 private:
  std::optional<Index> place_for(Index t) const {
    const auto writes = [&](const Pass& pass) {
      const auto uses = pass.uses.find(t);
      return uses != pass.uses.end() && !uses->second.written.empty();
    };
    if (std::ranges::count_if(rows_.passes, writes) != 1) return std::nullopt;
    const Index number = static_cast<Index>(std::ranges::find_if(rows_.passes, writes) - rows_.passes.begin());
    for (const RegionOp& one : rows_.region.ops)
      for (const Index x : graph_.op(one.op).inputs)
        if (ends_here_[at(x)] && have_same_rows(graph_.tensor(t), graph_.tensor(x)) && is_safe(t, x, number)) return x;
    return std::nullopt;
  }

  bool is_safe(Index t, Index x, Index number) const {
    for (std::size_t r = 0; r < rows_.region.ops.size(); ++r) {
      if (rows_.runs_whole(r) && rows_.pass[r] > number && reads(r, x)) return false;
      for (const EarlyOutput& early : rows_.loop(r).early)
        for (const Index i : early.inputs)
          if (rows_.op(r).inputs[at(i)] == x && rows_.statistics_pass[r] >= number) return false;
    }
    for (std::size_t p = at(number) + 1; p < rows_.passes.size(); ++p)
      for (const Visit& visit : rows_.passes[p].visits)
        if (reads(at(visit.op), x)) return false;
    const Pass& pass = rows_.passes[at(number)];
    const RowUses& uses = pass.uses.at(t);
    std::int64_t end = 0;  // rows before it are written
    for (Index v = 0; at(v) < pass.visits.size(); ++v) {
      const Visit& visit = pass.visits[at(v)];
      const std::size_t r = at(visit.op);
      const bool makes = r == at(rows_.made.at(t).maker) && !visit.statistics;
      const RowRange written = makes ? uses.written_at(v) : RowRange{};
      if (!written.empty() && written.begin != end) return false;
      if (reads(r, x) && !keeps_clear(r, x, t, visit.iterations, end, written)) return false;
      if (!written.empty()) end = written.end;
    }
    return true;
  }

  bool reads(std::size_t r, Index x) const {
    const std::vector<Index>& inputs = rows_.op(r).inputs;
    return std::find(inputs.begin(), inputs.end(), x) != inputs.end();
  }

  // Whether a visit reads no row of x before `end`, and none of those that it writes to t, or only where it may.
  bool keeps_clear(std::size_t r, Index x, Index t, RowRange iterations, std::int64_t end, RowRange written) const {
    const Op& op = rows_.op(r);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != x) continue;
      const auto& loop_reads = rows_.loop(r).reads;
      const auto read = std::ranges::find(loop_reads, static_cast<Index>(i), &LoopRead::input);
      if (read == loop_reads.end()) {
        if (end > 0 || !written.empty()) return false;
        continue;
      }
      if (read->axes != rows_.made.at(t).axes) return false;
      const RowRange rows = rows_read(*read, iterations, rows_of(graph_.tensor(x), read->axes));
      if (rows.empty() || rows.begin >= std::max(end, written.end)) continue;
      const bool permitted = std::ranges::find(op.inplace, View{t, x, 0}) != op.inplace.end();
      if (!permitted || rows != written) return false;
    }
    return true;
  }

  const RegionRows& rows_;
  const Graph& graph_;
  const StorageOptions& options_;
  std::vector<bool> ends_here_;  // per tensor: its bytes are its own, and nothing uses them after the region
};

}  // namespace

std::unordered_map<Index, Index> rows_in_place(const RegionRows& rows, const StorageOptions& options,
                                               const std::vector<bool>& ran) {
  if (!options.inplace) return {};
  return InplaceRows(rows, options, ran).found();
}

bool have_same_rows(const Tensor& a, const Tensor& b) {
  if (a.permuted || b.permuted) return false;
  return a.bytes == b.bytes && a.shape && a.shape == b.shape && a.dtype == b.dtype;
}

}  // namespace memplan
