#include <algorithm>
#include <numeric>

#include "memplan/liveness.hpp"
#include "storage/overlap.hpp"

namespace memplan {

std::vector<Index> dying_at(const Graph& graph, Index k, std::span<const Span> lives) {
  std::vector<Index> dying;
  const auto& kept = graph.outputs();
  for (const Index t : graph.op(k).inputs)
    if (lives[at(t)].last == k + 1 && graph.tensor(t).kind != TensorKind::weight &&
        std::find(kept.begin(), kept.end(), t) == kept.end())
      dying.push_back(t);
  return dying;
}

OpSteps op_steps_of(const Graph& graph, const HappensBefore& order) {
  OpSteps plain{std::vector<Step>(at(std::max<Index>(graph.op_count(), 1)) + 1)};
  std::iota(plain.begin.begin(), plain.begin.end(), Step{0});
  const auto is_ordered = [](const Op& op) { return !op.ordered.empty(); };
  if (!order.total() || graph.branches() || std::none_of(graph.ops().begin(), graph.ops().end(), is_ordered))
    return plain;
  const std::vector<Span> lives = lives_of(graph);
  OpSteps steps{{0},
                std::vector<std::vector<OpSteps::Rows>>(graph.ops().size()),
                std::vector<std::vector<OpSteps::Rows>>(graph.ops().size())};
  for (Index k = 0; k < graph.op_count(); ++k) {
    const OverlapStages stages = overlap_stages(graph, k, dying_at(graph, k, lives));
    for (const Index t : stages.inputs) steps.fading[at(k)].push_back({t, {}});
    for (const Index t : stages.outputs) steps.growing[at(k)].push_back({t, {}});
    for (const OverlapMoment& moment : stages.moments) {
      for (std::size_t i = 0; i < moment.needed.size(); ++i) steps.fading[at(k)][i].bytes.push_back(moment.needed[i]);
      for (std::size_t o = 0; o < moment.written.size(); ++o)
        steps.growing[at(k)][o].bytes.push_back(moment.written[o]);
    }
    steps.begin.push_back(steps.begin.back() + std::max<Step>(1, static_cast<Step>(stages.moments.size())));
  }
  return steps.begin.back() == static_cast<Step>(graph.op_count()) ? plain : steps;
}

}  // namespace memplan
