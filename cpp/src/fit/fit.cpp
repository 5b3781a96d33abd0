#include "memplan/fit.hpp"

#include <string>
#include <utility>

#include "fit/fitter.hpp"
#include "fit/rewrite.hpp"
#include "memplan/errors.hpp"

namespace memplan {

Fitted fit(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
           const FitOptions& options) {
  return Fitter(graph, facts, storage, options.recompute, options.transfer).within(options);
}

Fitted with_reruns(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                   const std::vector<std::pair<Index, Index>>& reruns,
                   const std::vector<std::pair<Index, Index>>& fetches, double transfer) {
  Fitter fitter(graph, facts, storage, true, transfer);
  const FitModel& model = fitter.searched();
  std::vector<Index> unit_of_op(graph.ops().size(), kNone), unit_of_tensor(graph.tensors().size(), kNone);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = model.units[u];
    (unit.moved == kNone ? unit_of_op[at(unit.ops.front())] : unit_of_tensor[at(unit.moved)]) = static_cast<Index>(u);
  }
  Schedule schedule(model);
  for (const auto& [stage, op] : reruns) {
    const bool known = 0 <= stage && stage < graph.op_count() && 0 <= op && op < graph.op_count();
    if (!known || !model.may_run_again(unit_of_op[at(op)], stage))
      throw GraphError("op " + (known ? quoted(graph.op(op).name) : std::to_string(op)) +
                       " may not run again before op " +
                       (known ? quoted(graph.op(stage).name) : std::to_string(stage)));
    if (!schedule.contains({stage, unit_of_op[at(op)]})) schedule.add({stage, unit_of_op[at(op)]});
  }
  for (const auto& [stage, tensor] : fetches) {
    const bool known = 0 <= stage && stage < graph.op_count() && 0 <= tensor && tensor < graph.tensor_count();
    if (!known || !model.may_run_again(unit_of_tensor[at(tensor)], stage))
      throw GraphError("tensor " + (known ? quoted(graph.tensor(tensor).name) : std::to_string(tensor)) +
                       " may not be fetched before op " +
                       (known ? quoted(graph.op(stage).name) : std::to_string(stage)));
    if (!schedule.contains({stage, unit_of_tensor[at(tensor)]})) schedule.add({stage, unit_of_tensor[at(tensor)]});
  }
  const std::vector<Rerun> all = schedule.reruns();
  Rewritten changed = rewritten(graph, facts, model, all, copies_of(model, all));
  const Bytes load = load_in(changed.graph, storage);
  return {std::move(changed.graph), std::move(changed.changes), load, schedule.cost(), 0, 0, false};
}

}  // namespace memplan
