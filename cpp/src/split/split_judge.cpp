#include "split/split_judge.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"

namespace memplan {

namespace {

// Of each step, the bytes that are alive.
std::vector<Bytes> alive_at(const Problem& problem, Index steps) {
  const LoadCurve curve = load_curve(problem);
  std::vector<Bytes> alive(at(steps), 0);
  for (std::size_t i = 0; i < curve.step.size(); ++i) {
    const Step end = i + 1 < curve.step.size() ? curve.step[i + 1] : steps;
    for (Step step = std::max<Step>(curve.step[i], 0); step < std::min<Step>(end, steps); ++step)
      alive[at(step)] = curve.bytes[i];
  }
  return alive;
}

// Of all ops; views call no kernel.
double cost_of(const Graph& graph, const std::vector<OpFacts>& facts, double call) {
  double cost = 0;
  for (Index k = 0; k < graph.op_count(); ++k) cost += facts[at(k)].cost + (graph.op(k).aliases.empty() ? call : 0);
  return cost;
}

std::vector<std::int64_t> key_of(const std::vector<Region>& regions) {
  std::vector<std::int64_t> key;
  for (const Region& region : regions) {
    key.push_back(-2 * region.pieces - (region.blocks ? 1 : 0));
    for (const RegionOp& one : region.ops) {
      key.push_back(one.op);
      key.push_back(2 * one.loop + (one.again ? 1 : 0));
    }
  }
  return key;
}

}  // namespace

Bytes Judged::above(Bytes capacity) const {
  Bytes sum = 0;
  for (const Bytes need : needs) sum = saturated_add(sum, std::max<Bytes>(0, need - capacity));
  return sum;
}

struct SplitJudge::Made {
  std::shared_ptr<const SplitGraph> split;
  Buffers buffers;
  Judged judged;
  std::vector<Index> worst;  // per op of the graph: the step of its need
};

SplitJudge::SplitJudge(const Graph& graph, const StorageOptions& storage, const SplitTerms& terms, std::int64_t work)
    : graph_(graph),
      storage_(storage),
      terms_(terms),
      cost_(cost_of(graph, terms.facts, terms.call)),
      work_(work),
      links_(graph) {}

void SplitJudge::give_at_least(std::int64_t work) { work_ = std::max(work_, work); }

SplitJudge::Made SplitJudge::make(const std::vector<Region>& regions, bool named) {
  named = named || !storage_.donate.empty();  // which is said by name
  auto split = std::make_shared<const SplitGraph>((named ? memplan::split : split_unnamed)(graph_, regions, storage_));
  for (const Index k : split->reruns)
    if (terms_.facts[at(k)].again != Again::same)
      throw RegionError("op " + quoted(graph_.op(k).name) + " cannot run in two passes: it must not run again");
  Buffers buffers = buffers_of(split->graph, storage_);
  const Index steps = split->graph.op_count();
  work_ -= steps;
  const std::vector<Bytes> alive = alive_at(buffers.problem, steps);
  Judged judged{std::vector<Bytes>(graph_.ops().size(), 0), 0, 0, steps, !split->reruns.empty()};
  std::vector<Index> worst(graph_.ops().size(), kNone);
  for (Index k = 0; k < steps; ++k) {
    const Index of = split->pieces[at(k)].of;
    judged.load = std::max(judged.load, alive[at(k)]);
    if (worst[at(of)] != kNone && alive[at(k)] <= judged.needs[at(of)]) continue;
    judged.needs[at(of)] = alive[at(k)];
    worst[at(of)] = k;
  }
  judged.cost = cost_of(split->graph, facts_of(*split, graph_, terms_.facts, terms_.byte), terms_.call) - cost_;
  return {std::move(split), std::move(buffers), std::move(judged), std::move(worst)};
}

const Judged* SplitJudge::judged(const std::vector<Region>& regions) {
  const auto [known, is_new] = known_.try_emplace(key_of(regions));
  if (is_new) {
    try {
      known->second = make(regions, false).judged;
    } catch (const RegionError&) {
      work_ -= graph_.op_count();
    }
  }
  return known->second ? &*known->second : nullptr;
}

SplitState SplitJudge::stated(const std::vector<Region>& regions) {
  Made made = make(regions, true);
  // Who is alive where the most is needed; only the highest ops are looked at.
  std::vector<std::vector<Index>> at_most(graph_.ops().size());
  for (Index of = 0; of < graph_.op_count(); ++of) {
    const Index step = made.worst[at(of)];
    if (step == kNone || made.judged.needs[at(of)] < made.judged.load / 2) continue;
    std::set<Index> seen;
    for (Index t = 0; t < made.split->graph.tensor_count(); ++t) {
      const Index b = made.buffers.buffer_of_tensor[at(t)];
      const Problem& problem = made.buffers.problem;
      if (b == kNone || problem.first()[at(b)] > step || problem.last()[at(b)] <= step) continue;
      if (const Index of_t = made.split->tensor_of[at(t)]; of_t != kNone) seen.insert(links_.root[at(of_t)]);
    }
    at_most[at(of)].assign(seen.begin(), seen.end());
    std::stable_sort(at_most[at(of)].begin(), at_most[at(of)].end(),
                     [&](Index a, Index b) { return graph_.tensor(a).bytes > graph_.tensor(b).bytes; });
  }
  return {regions, std::move(made.judged), std::move(made.split), std::move(at_most)};
}

}  // namespace memplan
