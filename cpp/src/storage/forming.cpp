#include "storage/forming.hpp"

#include <algorithm>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

void move_into(std::vector<Index>& all, std::vector<Index>& more) {
  if (all.size() < more.size()) std::swap(all, more);
  all.insert(all.end(), more.begin(), more.end());
  more.clear();
}

}  // namespace

FormingStorages::FormingStorages(const Graph& graph, const HappensBefore& order)
    : graph_(graph), distances_(graph.tensors().size()), uses_(graph.tensors().size()) {
  collect_uses(order);
  for (Index t = 0; t < graph_.tensor_count(); ++t) groups_.push_back(group_of_one(t));
  exclude();
  for (const Op& op : graph_.ops()) {
    for (const View& view : op.aliases) join(view.input, view.output, view.offset);
    for (const View& view : op.overwrites) join_over(view.input, view.output, view.offset);
  }
}

void FormingStorages::exclude() {
  for (const std::string& name : graph_.layout().exclude) {
    const auto t = graph_.find(name);
    if (!t) throw GraphError("exclude must name tensors of the graph, got " + quoted(name));
    groups_[at(*t)].excluded = true;
  }
}

void FormingStorages::collect_uses(const HappensBefore& order) {
  for (Index t = 0; t < graph_.tensor_count(); ++t) uses_[at(t)].first = graph_.op_count();
  const auto use = [&](Index t, Index k) {
    Uses& uses = uses_[at(t)];
    uses.first = std::min<Step>(uses.first, k);
    uses.last = std::max<Step>(uses.last, k);
    if (!order.total()) uses.ops.push_back(k);
  };
  for (Index k = 0; k < graph_.op_count(); ++k) {
    for (Index t : graph_.op(k).inputs) use(t, k);
    for (Index t : graph_.op(k).outputs) use(t, k);
  }
  for (Index t = 0; t < graph_.tensor_count(); ++t) {
    const TensorKind kind = graph_.tensor(t).kind;
    if (is_given(kind)) uses_[at(t)].first = 0;
    if (is_given(kind)) uses_[at(t)].last = std::max<Step>(uses_[at(t)].last, 0);  // it is there at least
    if (kind == TensorKind::weight) uses_[at(t)].endless = true;
  }
  for (Index t : graph_.outputs()) uses_[at(t)].endless = true;
}

Group FormingStorages::group_of_one(Index t) const {
  const Uses& uses = uses_[at(t)];
  const Step end = uses.endless ? graph_.op_count() : uses.last + 1;
  const bool is_output = uses.endless && graph_.tensor(t).kind != TensorKind::weight;
  return {t, uses.first, end, is_output, false, {t}};
}

void FormingStorages::join(Index whole, Index inside, Bytes offset) {
  Group& outer = group_of(whole);
  Group& inner = group_of(inside);
  if (&outer == &inner) return;
  outer.first = std::min(outer.first, inner.first);
  outer.last = std::max(outer.last, inner.last);
  outer.is_output = outer.is_output || inner.is_output;
  outer.excluded = outer.excluded || inner.excluded;
  move_into(outer.members, inner.members);
  move_into(outer.overwriting, inner.overwriting);
  Group joined = std::move(outer);
  distances_.unite(whole, inside, offset);
  group_of(whole) = std::move(joined);
}

void FormingStorages::join_over(Index whole, Index inside, Bytes offset) {
  join(whole, inside, offset);
  group_of(inside).overwriting.push_back(inside);
}

TensorKind FormingStorages::kind_of(const Group& group) const {
  const TensorKind kind = graph_.tensor(group.root).kind;
  return group.is_output && kind == TensorKind::intermediate ? TensorKind::output : kind;
}

Bytes FormingStorages::placed(const Place& place) {
  Bytes sum = 0;
  for (Index t = 0; t < graph_.tensor_count(); ++t)
    if (is_root(t) && is_placed(group_of(t), place)) sum = saturated_add(sum, graph_.tensor(t).bytes);
  return sum;
}

Storages FormingStorages::result() {
  Storages result;
  result.storage_of.assign(graph_.tensors().size(), kNone);
  result.offset_of.assign(graph_.tensors().size(), 0);
  for (Index t = 0; t < graph_.tensor_count(); ++t) {
    if (!is_root(t)) continue;
    result.storage_of[at(t)] = static_cast<Index>(result.storages.size());
    const Group& group = group_of(t);
    result.storages.push_back({t, graph_.tensor(t).bytes, kind_of(group), group.excluded});
  }
  for (Index t = 0; t < graph_.tensor_count(); ++t) {
    result.storage_of[at(t)] = result.storage_of[at(group_of(t).root)];
    result.offset_of[at(t)] = offset_of(t);
  }
  return result;
}

}  // namespace memplan
