#include "memplan/sharing_bound.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "graph/branch_runs.hpp"
#include "memplan/liveness.hpp"
#include "problem/granules.hpp"
#include "problem/reserved.hpp"
#include "storage/contents.hpp"
#include "storage/overlap.hpp"
#include "storage/row_times.hpp"

namespace memplan {

namespace {

// Bytes over steps, from what is added to spans of steps.
class Curve {
 public:
  explicit Curve(const Graph& graph) : change_(static_cast<std::size_t>(std::max<Step>(graph.op_count(), 1)) + 1, 0) {}

  void add(Step first, Step last, Bytes bytes) {
    change_[static_cast<std::size_t>(first)] += bytes;
    change_[static_cast<std::size_t>(last)] -= bytes;
  }
  // Each content that some of the members show counts while one of them lives.
  void add(const std::vector<Strip>& members) {
    for (const Strip& strip : united(members)) add(strip.first, strip.last, strip.end - strip.begin);
  }
  std::vector<Bytes> bytes() const {
    std::vector<Bytes> bytes;
    Bytes sum = 0;
    for (Bytes change : change_) bytes.push_back(sum += change);
    bytes.pop_back();
    return bytes;
  }

 private:
  std::vector<Bytes> change_;  // per step, and one after
};

// Per op, the bytes of outputs that may be written over inputs while it runs; of each tensor, at most bytes_of(tensor).
template <class BytesOf>
std::vector<Bytes> written_over(const Graph& graph, std::span<const Shared> possible,
                                const std::vector<std::vector<CommonBytes>>& common, BytesOf&& bytes_of) {
  std::vector<std::map<Index, Bytes>> outputs(graph.ops().size()), inputs = outputs;  // per op: most of each tensor
  const auto may_share = [&](Index op, Index output, Index input, Bytes most) {
    for (const auto& [all, tensor] : {std::pair{&outputs, output}, {&inputs, input}}) {
      Bytes& bytes = (*all)[at(op)][tensor];
      bytes = saturated_add(bytes, most);  // several outputs may take an input, and an output several inputs
    }
  };
  for (const Shared& shared : possible)
    if (shared.how == Sharing::inplace) {
      const auto [output, input, offset] = shared.view;
      may_share(shared.op, output, input, kMaxBytes);
    }
  for (Index k = 0; k < graph.op_count(); ++k)
    for (const auto& [input, output, most, by_the_ends] : common[at(k)]) may_share(k, output, input, most);
  const auto sum = [&](const std::map<Index, Bytes>& all) {
    Bytes bytes = 0;
    for (const auto& [tensor, most] : all) bytes += std::min(most, bytes_of(tensor));
    return bytes;
  };
  std::vector<Bytes> least;
  for (std::size_t k = 0; k < outputs.size(); ++k) least.push_back(std::min(sum(outputs[k]), sum(inputs[k])));
  return least;
}

// Per storage, whether it begins at an aligned offset in every plan, if it lies in the arena: it shares bytes by choice
// only with others that begin where it does.
std::vector<bool> surely_aligned(const Storages& storages, std::span<const Shared> possible,
                                 const std::vector<std::vector<CommonBytes>>& common) {
  std::vector<Index> next(storages.storages.size());  // towards one storage of all that may share bytes
  std::iota(next.begin(), next.end(), 0);
  std::vector<bool> aligned(next.size(), true);
  const auto group_of = [&](Index storage) {
    while (next[at(storage)] != storage) storage = next[at(storage)] = next[at(next[at(storage)])];
    return storage;
  };
  const auto join = [&](Index output, Index input, bool same_begin) {
    const Index a = group_of(storages.storage_of[at(output)]), b = group_of(storages.storage_of[at(input)]);
    aligned[at(b)] = aligned[at(a)] && aligned[at(b)] && same_begin;
    next[at(a)] = b;
  };
  const auto begins = [&](Index tensor) { return storages.offset_of[at(tensor)] == 0; };
  for (const auto& [how, op, view] : possible)
    join(view.output, view.input,
         how == Sharing::inplace && view.offset == 0 && begins(view.output) && begins(view.input));
  for (const auto& overlaps : common)
    for (const CommonBytes& one : overlaps) join(one.output, one.input, false);
  std::vector<bool> surely;
  for (std::size_t s = 0; s < next.size(); ++s) surely.push_back(aligned[at(group_of(static_cast<Index>(s)))]);
  return surely;
}

// What is surely inside, step by step, with what alignment costs.
class AlignedNeeds {
 public:
  AlignedNeeds(const Graph& graph, Bytes alignment) : graph_(graph), alive_(alignment), events_(at(graph.op_count())) {}

  // Contents of a storage that begins at an aligned offset, or else anywhere.
  void add(const std::vector<Strip>& members, bool is_aligned) {
    for (const Strip& strip : united(members)) {
      const std::size_t strip_number = strips_.size();
      strips_.push_back({strip.begin, strip.end, is_aligned});
      for (const auto& [step, born] : {std::pair{strip.first, true}, {strip.last, false}})
        if (at(step) < events_.size()) events_[at(step)].push_back({strip_number, born});
    }
  }

  // The most, over all steps, of what is needed beside what may be written over.
  Bytes most(const std::vector<Bytes>& over, bool with_workspace) {
    Bytes most = 0;
    for (std::size_t k = 0; k < events_.size(); ++k) {
      for (const Event& event : events_[k]) take(strips_[event.strip], event.born);
      const Bytes workspace = with_workspace ? graph_.op(static_cast<Index>(k)).workspace : 0;
      if (workspace > 0) alive_.add(0, workspace);
      if (alive_.most() - over[k] > most) most = std::max(most, alive_.least() - over[k]);
      if (workspace > 0) alive_.remove(0, workspace);
    }
    return most;
  }

 private:
  struct Piece {
    Bytes begin, end;
    bool is_aligned;
  };
  struct Event {
    std::size_t strip;
    bool born;
  };

  void take(const Piece& piece, bool born) {
    if (piece.is_aligned)
      born ? alive_.add(piece.begin, piece.end) : alive_.remove(piece.begin, piece.end);
    else
      born ? alive_.add_anywhere(piece.end - piece.begin) : alive_.remove_anywhere(piece.end - piece.begin);
  }

  const Graph& graph_;
  InGranules alive_;
  std::vector<Piece> strips_;
  std::vector<std::vector<Event>> events_;  // per step
};

// The highest, over all steps, of the lowest address below which a step's bytes lie beside what is reserved in it.
Bytes end_of(std::vector<std::pair<Bytes, Step>> needs, std::span<const Reserved> reserved) {
  std::sort(needs.rbegin(), needs.rend());
  Bytes most = 0;  // that what is reserved may raise a need by
  for (const Reserved& range : reserved) most = saturated_add(most, range.end - range.begin);
  Bytes bound = 0;
  for (const auto& [bytes, step] : needs) {
    if (saturated_add(most, bytes) <= bound) break;
    bound = std::max(bound, end_beside(throughout(reserved, step, step + 1), bytes));
  }
  return bound;
}

}  // namespace

Bytes sharing_bound(const Graph& graph, const HappensBefore& order, const StorageOptions& options,
                    std::span<const Shared> possible) {
  const std::optional<Bytes> total = total_bytes(graph);
  if (!total) return 0;
  StorageOptions none = options;
  none.inplace = none.zero_copy = false;
  const Storages storages = storages_of(graph, order, none);
  const Contents contents(graph, storages, possible);
  const ArenaMembership membership(graph, storages, options, possible);
  const std::vector<Span> lives = lives_of(graph);
  std::vector<std::vector<CommonBytes>> common(graph.ops().size());  // per op
  for (Index k = 0; k < graph.op_count(); ++k)
    if (may_overlap(graph.op(k))) common[at(k)] = common_bytes(graph, k, dying_at(graph, k, lives));

  const Bytes alignment = options.alignment;
  const Bytes most_alignment = (kMaxBytes - *total) / (graph.tensor_count() + graph.op_count() + 1);  // sums fit
  const bool counts_tails = alignment > 1 && alignment <= most_alignment && graph.layout().reserved.empty();
  const std::vector<bool> is_aligned = counts_tails ? surely_aligned(storages, possible, common) : std::vector<bool>();
  std::vector<std::vector<Strip>> inside(storages.storages.size()), all(storages.storages.size());
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const Index s = storages.storage_of[at(t)];
    if (!membership.perhaps_inside(s)) continue;
    const Bytes begin = storages.offset_of[at(t)];
    contents.for_each(s, begin, begin + graph.tensor(t).bytes, [&](Index origin, Bytes from, Bytes to) {
      const Strip strip{from, to, lives[at(t)].first, lives[at(t)].last};
      all[at(origin)].push_back(strip);
      if (membership.surely_inside(s)) inside[at(origin)].push_back(strip);
    });
  }
  Curve surely(graph), perhaps(graph);
  AlignedNeeds aligned(graph, alignment);
  for (std::size_t s = 0; s < all.size(); ++s) {
    surely.add(inside[s]);
    perhaps.add(all[s]);
    if (counts_tails) aligned.add(inside[s], is_aligned[s]);
  }
  const std::vector<Bytes> least = surely.bytes(), most = perhaps.bytes();
  const std::vector<Bytes> over =
      written_over(graph, possible, common, [&](Index tensor) { return graph.tensor(tensor).bytes; });
  std::vector<std::pair<Bytes, Step>> needs;
  for (std::size_t k = 0; k < least.size(); ++k) {
    Bytes need = least[k] + std::max<Bytes>(most[k] - least[k] - membership.donated_bytes(), 0);
    if (k < over.size()) {
      need -= over[k];
      if (options.place.contains(TensorKind::workspace)) need += graph.op(static_cast<Index>(k)).workspace;
    }
    needs.emplace_back(std::max<Bytes>(need, 0), static_cast<Step>(k));
  }
  const Bytes bound = end_of(std::move(needs), graph.layout().reserved);
  if (!counts_tails) return bound;
  const auto rounded = [&](Index tensor) {
    const Bytes bytes = graph.tensor(tensor).bytes;
    return is_aligned[at(storages.storage_of[at(tensor)])] ? align_up(bytes, alignment) : bytes;
  };
  return std::max(bound, aligned.most(written_over(graph, possible, common, rounded),
                                      options.place.contains(TensorKind::workspace)));
}

Bytes sharing_bound(const Graph& graph, const StorageOptions& options) {
  Bytes most = 0;
  const auto look = [&](const Graph& run) {
    const HappensBefore order(run);
    most = std::max(most, sharing_bound(run, order, options, possible_sharing(run, order, options)));
  };
  if (!graph.branches()) look(graph);
  for (const Graph& run : runs_of(graph)) look(run);
  return most;
}

}  // namespace memplan
