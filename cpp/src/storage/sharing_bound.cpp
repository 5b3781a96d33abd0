#include "memplan/sharing_bound.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "graph/branch_runs.hpp"
#include "memplan/liveness.hpp"
#include "problem/reserved.hpp"
#include "storage/contents.hpp"
#include "storage/overlap.hpp"

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

// Per op, the bytes of outputs that may be written over inputs while it runs.
std::vector<Bytes> written_over(const Graph& graph, const HappensBefore& order, std::span<const Shared> possible) {
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
  const OpSteps steps = op_steps_of(graph, order);
  for (Index k = 0; k < graph.op_count() && !steps.is_plain(); ++k)
    if (!steps.fading[at(k)].empty())
      for (const Overlap& overlap : overlaps_of(graph, k))
        may_share(k, overlap.output, overlap.input, overlap.most(graph));
  const auto sum = [&](const std::map<Index, Bytes>& all) {
    Bytes bytes = 0;
    for (const auto& [tensor, most] : all) bytes += std::min(most, graph.tensor(tensor).bytes);
    return bytes;
  };
  std::vector<Bytes> least;
  for (std::size_t k = 0; k < outputs.size(); ++k) least.push_back(std::min(sum(outputs[k]), sum(inputs[k])));
  return least;
}

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
  if (!total_bytes(graph)) return 0;
  StorageOptions none = options;
  none.inplace = none.zero_copy = false;
  const Storages storages = storages_of(graph, order, none);
  const Contents contents(graph, storages, possible);
  const ArenaMembership membership(graph, storages, options, possible);
  const std::vector<Span> lives = lives_of(graph);

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
  for (std::size_t s = 0; s < all.size(); ++s) {
    surely.add(inside[s]);
    perhaps.add(all[s]);
  }
  const std::vector<Bytes> least = surely.bytes(), most = perhaps.bytes(), over = written_over(graph, order, possible);
  std::vector<std::pair<Bytes, Step>> needs;
  for (std::size_t k = 0; k < least.size(); ++k) {
    Bytes need = least[k] + std::max<Bytes>(most[k] - least[k] - membership.donated_bytes(), 0);
    if (k < over.size()) {
      need -= over[k];
      if (options.place.contains(TensorKind::workspace)) need += graph.op(static_cast<Index>(k)).workspace;
    }
    needs.emplace_back(std::max<Bytes>(need, 0), static_cast<Step>(k));
  }
  return end_of(std::move(needs), graph.layout().reserved);
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
