#include <algorithm>
#include <map>
#include <numeric>

#include "memplan/solve_split.hpp"
#include "order/possible_everywhere.hpp"
#include "split/growth.hpp"
#include "split/needed_rows.hpp"
#include "storage/contents.hpp"

namespace memplan {

namespace {

class SplitFloor {
 public:
  SplitFloor(const Graph& graph, const StorageOptions& storage) : links_(graph), needed_(links_) {
    StorageOptions none = storage;
    none.inplace = none.zero_copy = false;
    const Storages storages = storages_of(graph, HappensBefore(graph), none);
    const std::vector<Shared> possible = possible_everywhere(graph, storage);
    const ArenaMembership membership(graph, storages, storage, possible);
    std::vector<Index> next(storages.storages.size());
    std::iota(next.begin(), next.end(), Index{0});
    const auto group = [&](Index t) {
      Index s = storages.storage_of[at(t)];
      while (next[at(s)] != s) s = next[at(s)] = next[at(next[at(s)])];
      return s;
    };
    for (const Shared& shared : possible)
      if (shared.how != Sharing::inplace) next[at(group(shared.view.input))] = group(shared.view.output);
    for (Index t = 0; t < graph.tensor_count(); ++t) group_.push_back(group(t));
    for (Index t = 0; t < graph.tensor_count(); ++t) {
      const Index root = links_.root[at(t)];
      const bool placed = membership.surely_inside(storages.storage_of[at(t)]) &&
                          (!links_.stays[at(root)] || storage.place.contains(TensorKind::output));
      bytes_.push_back(placed ? graph.tensor(t).bytes : 0);
    }
  }

  Bytes run() const {
    Bytes floor = 0;
    for (Index k = 0; k < links_.graph.op_count(); ++k) {
      const Op& op = links_.graph.op(k);
      if (!op.aliases.empty() || !op.overwrites.empty() || !op.concats.empty() || !op.slices.empty()) continue;
      if (!needed_.runs(k)) continue;
      Bytes least = whole(op);
      for (std::size_t l = 0; l < op.loops.size(); ++l) {
        Bytes most = 0;
        for (const RowRange& runs : needed_.iterations(k, l)) most = std::max(most, during_any(op, op.loops[l], runs));
        least = std::min(least, most);
      }
      floor = std::max(floor, least);
    }
    return floor;
  }

 private:
  Bytes some_of(Index t, const Axes& axes, const RowRange& rows) const {
    const std::int64_t all = rows_of(links_.graph.tensor(t), axes);
    return all == 0 ? 0 : bytes_[at(t)] / all * rows.size();
  }

  // Of what is read by several names, or through a view, not all may be needed at once.
  bool has_other_names(const Op& op, Index t) const {
    const auto same = [&](Index u) { return links_.root[at(u)] == links_.root[at(t)]; };
    return links_.root[at(t)] != t || std::count_if(op.inputs.begin(), op.inputs.end(), same) > 1;
  }

  // Adds up the most of each group of tensors, which may show the same bytes.
  class Together {
   public:
    explicit Together(const SplitFloor& floor) : floor_(floor) {}
    void add(Index t, Bytes bytes) {
      Bytes& most = most_[floor_.group_[at(t)]];
      most = std::max(most, bytes);
    }
    Bytes bytes() const {
      Bytes sum = 0;
      for (const auto& [group, most] : most_) sum += most;
      return sum;
    }

   private:
    const SplitFloor& floor_;
    std::map<Index, Bytes> most_;
  };

  Bytes whole(const Op& op) const {
    Together read(*this);
    for (const Index t : op.inputs) read.add(t, bytes_[at(t)]);
    const Bytes in = read.bytes();
    Bytes out = 0;
    for (const Index t : op.outputs) out += bytes_[at(t)];
    return op.inplace.empty() ? in + out : std::max(in, out);
  }

  // The most during one of these iterations. Of very many, those at the ends and in the middle stand for all: a bound of
  // some of them holds, and the windows of the others are not cut off by the ends of tensors.
  Bytes during_any(const Op& op, const Loop& loop, const RowRange& runs) const {
    constexpr std::int64_t kLooked = 256;
    Bytes most = 0;
    for (std::int64_t i = runs.begin; i < runs.end; ++i) {
      if (i == runs.begin + kLooked) i = std::max(i, (runs.begin + runs.end - kLooked) / 2);
      if (i == (runs.begin + runs.end + kLooked) / 2) i = std::max(i, runs.end - kLooked);
      most = std::max(most, during(op, loop, i));
    }
    return most;
  }

  Bytes during(const Op& op, const Loop& loop, std::int64_t iteration) const {
    const RowRange now{iteration, iteration + 1};
    Together read_together(*this);
    Bytes out = 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Index t = op.inputs[i];
      if (has_other_names(op, t)) continue;
      Bytes some = bytes_[at(t)];
      for (const LoopRead& read : loop.reads)
        if (at(read.input) == i)
          some = some_of(t, read.axes, rows_read(read, now, rows_of(links_.graph.tensor(t), read.axes)));
      read_together.add(t, some);
    }
    const Bytes in = read_together.bytes();
    for (const Index o : loop.sums) out += bytes_[at(op.outputs[at(o)])];
    for (const LoopWrite& write : loop.writes) {
      const Index t = op.outputs[at(write.output)];
      out += some_of(t, write.axes, rows_written(write, now, rows_of(links_.graph.tensor(t), write.axes)));
    }
    return op.inplace.empty() ? in + out : std::max(in, out);
  }

  Links links_;
  NeededRows needed_;
  std::vector<Index> group_;  // per tensor: that of all with which it may show the same bytes
  std::vector<Bytes> bytes_;  // per tensor; 0 for those that may lie outside of the arena
};

}  // namespace

Bytes split_floor(const Graph& graph, const StorageOptions& storage) { return SplitFloor(graph, storage).run(); }

}  // namespace memplan
