#include "fit/fit_model.hpp"

#include <algorithm>
#include <numeric>

namespace memplan {

namespace {

void sort_once(std::vector<Index>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

bool is_view(const Op& op, Index tensor) {
  const auto shows = [tensor](const View& view) { return view.output == tensor; };
  return std::any_of(op.aliases.begin(), op.aliases.end(), shows) ||
         std::any_of(op.overwrites.begin(), op.overwrites.end(), shows);
}

// What a unit needs to know of the graph.
struct StorageFlow {
  std::vector<Index> root;                   // per tensor
  std::vector<std::vector<Index>> changed;   // per op, roots
  std::vector<std::vector<Index>> changers;  // per root tensor, ops; ascending
  std::vector<bool> caged;                   // per root: a view of it is made by an op that has to run for more
  std::vector<bool> kept;                    // per root: the caller gets it, or a view of it

  StorageFlow(const Graph& graph, const std::vector<OpFacts>& facts)
      : root(roots_of(graph)),
        changed(changed_roots(graph, facts, root)),
        changers(graph.tensors().size()),
        caged(graph.tensors().size(), false),
        kept(graph.tensors().size(), false) {
    for (const Index t : graph.outputs()) kept[at(root[at(t)])] = true;
    for (Index k = 0; k < graph.op_count(); ++k) {
      for (const Index r : changed[at(k)]) changers[at(r)].push_back(k);
      const Op& op = graph.op(k);
      const bool has_own = std::any_of(op.outputs.begin(), op.outputs.end(), [&](Index t) { return !is_view(op, t); });
      for (const View& view : op.overwrites) caged[at(root[at(view.input)])] = true;
      if (has_own || op.workspace > 0)
        for (const View& view : op.aliases) caged[at(root[at(view.input)])] = true;
    }
  }
};

// The ops that make an op's outputs what they are at the end; none where they cannot be made again.
std::vector<Index> ops_of_unit(const Graph& graph, const std::vector<OpFacts>& facts, const StorageFlow& flow,
                               Index k) {
  const Op& op = graph.op(k);
  if (facts[at(k)].again != Again::same) return {};
  std::vector<Index> ops{k};
  bool makes = false;
  for (const Index t : op.outputs) {
    if (is_view(op, t)) continue;
    makes = true;
    if (flow.kept[at(t)]) continue;  // it stays where it is, and what has changed it must not run again
    if (flow.caged[at(t)]) return {};
    for (const Index changer : flow.changers[at(t)]) {
      if (facts[at(changer)].again != Again::changes || flow.changed[at(changer)].size() != 1) return {};
      ops.push_back(changer);
    }
  }
  if (!makes) return {};
  sort_once(ops);
  return ops;
}

// Whether a tensor shows all bytes of another, as the same.
bool is_whole(const Graph& graph, const View& view, Index root) {
  const Tensor &a = graph.tensor(view.output), &b = graph.tensor(root);
  return view.offset == 0 && a.bytes == b.bytes && a.shape == b.shape && a.dtype == b.dtype;
}

// The op after which the bytes of a tensor are final; kNone where it cannot be moved as a whole.
Index final_after(const Graph& graph, const StorageFlow& flow, Index root, Index maker) {
  if (maker == kNone || flow.root[at(root)] != root || flow.caged[at(root)] || flow.kept[at(root)]) return kNone;
  Index last = maker;
  for (const Index changer : flow.changers[at(root)]) {
    last = std::max(last, changer);
    for (const View& view : graph.op(changer).aliases)
      if (flow.root[at(view.output)] == root && !is_whole(graph, view, root)) return kNone;
  }
  return last;
}

void add_reruns(FitModel& model, const Graph& graph, const std::vector<OpFacts>& facts, const StorageFlow& flow) {
  const ContentsModel& contents = model.contents;
  for (Index k = 0; k < model.op_count(); ++k) {
    Unit unit;
    unit.ops = ops_of_unit(graph, facts, flow, k);
    if (unit.ops.empty()) continue;
    for (const Index i : contents.makes[at(k)])
      if (model.may_leave(i)) unit.items.push_back(i);
    if (unit.items.empty()) continue;
    unit.until = model.op_count();
    for (const Index op : unit.ops) {
      unit.cost += facts[at(op)].cost;
      unit.from = std::max(unit.from, op + 1);
      for (const Index i : contents.uses[at(op)])
        if (contents.items[at(i)].maker != k) unit.needs.push_back(i);
      for (const Index t : graph.op(op).inputs) {
        const Index root = flow.root[at(t)];
        for (const Index changer : flow.changers[at(root)])
          if (changer > op && !std::binary_search(unit.ops.begin(), unit.ops.end(), changer))
            unit.until = std::min(unit.until, changer);
      }
    }
    sort_once(unit.needs);
    if (unit.from > unit.until) continue;
    for (const Index i : unit.items) model.unit_of_item[at(i)] = static_cast<Index>(model.units.size());
    model.units.push_back(std::move(unit));
  }
}

// The op no longer uses the item: it reads other bytes in its place.
void forget_use(ContentsModel& contents, Index item, Index op) {
  std::erase(contents.items[at(item)].users, op);
  std::erase(contents.uses[at(op)], item);
  std::erase(contents.over_items[at(op)], item);
  for (Over& over : contents.overs[at(op)]) std::erase(over.items, item);
}

// An input that is placed is not moved. It may lie in another tensor too, as a part that is joined without a copy does.
// Once that tensor has moved out, ops that read it no longer need the input.
template <class Final>
void free_what_is_moved_elsewhere(FitModel& model, const Graph& graph, const StorageFlow& flow, Final&& final_of) {
  for (Index i = 0; i < static_cast<Index>(model.contents.items.size()); ++i) {
    const Content& item = model.contents.items[at(i)];
    if (model.may_leave(i) || item.kept || item.roots.size() < 2) continue;
    const auto is_free_of = [&](Index op, Index t) {
      const Index root = flow.root[at(t)];
      if (std::find(item.roots.begin(), item.roots.end(), root) == item.roots.end()) return true;
      return final_of(root) != kNone && final_of(root) < op;
    };
    const std::vector<Index> users = item.users;
    for (const Index k : users) {
      const Op& op = graph.op(k);
      const auto is_free = [&](Index t) { return is_free_of(k, t); };
      if (std::all_of(op.inputs.begin(), op.inputs.end(), is_free) &&
          std::all_of(op.outputs.begin(), op.outputs.end(), is_free))
        forget_use(model.contents, i, k);
    }
    model.uses[at(i)] = item.users;
  }
}

// Tensors that are moved. With `parts`, each item on its own, from when one of the tensors is final in which it lies.
void add_fetches(FitModel& model, const Graph& graph, const StorageFlow& flow, const Ways& ways) {
  std::vector<Index> maker(graph.tensors().size(), kNone);
  for (Index k = 0; k < graph.op_count(); ++k)
    for (const Index t : graph.op(k).outputs) maker[at(t)] = k;
  const auto add = [&](Index tensor, std::vector<Index> own, Index last, Bytes bytes) {
    if (last == kNone || last + 1 >= model.op_count()) return;
    Unit unit;
    unit.moved = tensor;
    unit.cost = unit.once = *ways.transfer * static_cast<double>(bytes);
    unit.from = last + 1;
    unit.until = model.op_count();
    for (const Index i : own) model.fetch_of_item[at(i)] = static_cast<Index>(model.units.size());
    unit.items = std::move(own);
    model.units.push_back(std::move(unit));
  };
  const auto final_of = [&](Index root) { return final_after(graph, flow, root, maker[at(root)]); };
  if (ways.parts) free_what_is_moved_elsewhere(model, graph, flow, final_of);
  std::vector<std::vector<Index>> items_of(graph.tensors().size());
  for (Index i = 0; i < static_cast<Index>(model.contents.items.size()); ++i) {
    const Content& item = model.contents.items[at(i)];
    if (!model.may_leave(i)) continue;
    items_of[at(item.tensor)].push_back(i);
    if (!ways.parts) continue;
    Index last = kNone;
    for (const Index root : item.roots)
      if (const Index final = final_of(root); final != kNone && (last == kNone || final < last)) last = final;
    add(item.tensor, {i}, last, item.bytes);
  }
  for (std::size_t t = 0; t < items_of.size() && !ways.parts; ++t)
    if (!items_of[t].empty())
      add(static_cast<Index>(t), std::move(items_of[t]), final_of(static_cast<Index>(t)),
          graph.tensor(static_cast<Index>(t)).bytes);
}

}  // namespace

std::vector<Index> roots_of(const Graph& graph) {
  std::vector<Index> root(graph.tensors().size());
  std::iota(root.begin(), root.end(), Index{0});
  for (const Op& op : graph.ops()) {
    for (const View& view : op.aliases) root[at(view.output)] = root[at(view.input)];
    for (const View& view : op.overwrites) root[at(view.output)] = root[at(view.input)];
  }
  return root;
}

std::vector<std::vector<Index>> changed_roots(const Graph& graph, const std::vector<OpFacts>& facts,
                                              const std::vector<Index>& root_of) {
  std::vector<std::vector<Index>> changed(graph.ops().size());
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    for (const View& view : op.overwrites) changed[at(k)].push_back(root_of[at(view.input)]);
    if (facts[at(k)].again == Again::same) continue;
    for (const View& view : op.aliases) changed[at(k)].push_back(root_of[at(view.input)]);
    const bool silent = changed[at(k)].empty() && op.outputs.empty() && !op.inputs.empty();
    if (silent) changed[at(k)].push_back(root_of[at(op.inputs.front())]);
    sort_once(changed[at(k)]);
  }
  return changed;
}

FitModel::FitModel(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                   const Ways& ways)
    : contents(graph, storage),
      unit_of_item(contents.items.size(), kNone),
      fetch_of_item(contents.items.size(), kNone),
      uses(contents.items.size()) {
  for (std::size_t i = 0; i < contents.items.size(); ++i) uses[i] = contents.items[i].users;
  if (!ways.recompute && !ways.transfer) return;
  const StorageFlow flow(graph, facts);
  if (ways.recompute) add_reruns(*this, graph, facts, flow);
  if (ways.transfer) add_fetches(*this, graph, flow, ways);
}

}  // namespace memplan
