#include "split/growth.hpp"

#include <algorithm>

namespace memplan {

namespace {

const LoopRead* read_of(const Op& op, const Loop& loop, Index tensor) {
  for (const LoopRead& read : loop.reads)
    if (op.inputs[at(read.input)] == tensor) return &read;
  return nullptr;
}

const LoopWrite* write_of(const Op& op, const Loop& loop, Index tensor) {
  for (const LoopWrite& write : loop.writes)
    if (op.outputs[at(write.output)] == tensor) return &write;
  return nullptr;
}

bool shows(const Op& op, Index tensor) {
  return std::any_of(op.aliases.begin(), op.aliases.end(), [&](const View& view) { return view.input == tensor; });
}

// Whether the loop goes along these axes of all those tensors that the op reads or writes.
bool goes_along(const Op& op, const Loop& loop, const std::unordered_map<Index, Axes>& fixed) {
  for (const Index t : op.inputs) {
    const auto found = fixed.find(t);
    if (found == fixed.end()) continue;
    const LoopRead* read = read_of(op, loop, t);
    if (read == nullptr ? !shows(op, t) : read->axes != found->second) return false;
  }
  for (const Index t : op.outputs) {
    const auto found = fixed.find(t);
    if (found == fixed.end()) continue;
    const LoopWrite* write = write_of(op, loop, t);
    if (write == nullptr || write->axes != found->second) return false;
  }
  return true;
}

}  // namespace

Links::Links(const Graph& graph_)
    : graph(graph_),
      maker(graph_.tensors().size(), kNone),
      readers(graph_.tensors().size()),
      root(graph_.tensors().size()),
      family(graph_.tensors().size()),
      stays(graph_.tensors().size(), false) {
  for (Index t = 0; t < graph.tensor_count(); ++t) root[at(t)] = t;
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (const Index t : graph.op(k).inputs)
      if (readers[at(t)].empty() || readers[at(t)].back() != k) readers[at(t)].push_back(k);
    for (const Index t : graph.op(k).outputs) maker[at(t)] = k;
    for (const View& view : graph.op(k).aliases) root[at(view.output)] = root[at(view.input)];
  }
  for (Index t = 0; t < graph.tensor_count(); ++t) family[at(root[at(t)])].push_back(t);
  for (const Index t : graph.outputs()) stays[at(root[at(t)])] = true;
}

Growth::Growth(const Links& links, Index op, Index loop, bool passes) : links_(links), passes_(passes) {
  loops_.emplace(op, loop);
}

Region Growth::region(Index pieces) const {
  Region region{{}, pieces};
  for (const auto& [op, loop] : loops_) region.ops.push_back({op, loop, false});
  std::sort(region.ops.begin(), region.ops.end(), [](const RegionOp& a, const RegionOp& b) { return a.op < b.op; });
  return region;
}

std::int64_t Growth::longest() const {
  std::int64_t most = 0;
  for (const auto& [op, _] : loops_) most = std::max(most, loop(op).extent);
  return most;
}

bool Growth::grow() {
  while (const std::optional<Index> root = edge()) {
    tried_.insert(*root);
    const std::size_t before = loops_.size();
    if (!extend([&] { return take_in(*root); }) && !passes_) reach_beyond(*root);
    if (loops_.size() > before) return true;
  }
  return false;
}

// Does something that takes ops in. Nothing changes, and it is false, if it fails or leads to no region that can be split.
bool Growth::extend(const std::function<bool()>& takes) {
  const Loops before = loops_;
  const AxesOf inside = inside_;
  if (takes() && (loops_.size() == before.size() || (close() && (passes_ || !needs_passes())))) return true;
  loops_ = before;
  inside_ = inside;
  return false;
}

// Whether an op needs statistics of what another one makes.
bool Growth::needs_passes() const {
  return std::ranges::any_of(loops_, [&](const auto& one) {
    const Op& op = links_.graph.op(one.first);
    const auto& statistics = loop(one.first).statistics;
    return statistics && std::ranges::any_of(statistics->inputs, [&](Index i) {
             return loops_.contains(links_.maker[at(links_.root[at(op.inputs[at(i)])])]);
           });
  });
}

// A region with an op in its middle that is no member cannot be split: such ops are taken in. False if one of these goes
// along no loop of the others.
bool Growth::close() {
  for (const Index k : between()) {
    const Op& op = links_.graph.op(k);
    AxesOf fixed = inside_;
    for (const auto* tensors : {&op.inputs, &op.outputs})
      for (const Index t : *tensors)
        if (const auto axes = axes_by_members(t)) fixed[t] = *axes;
    const auto is_fixed = [&](Index t) { return fixed.contains(t); };
    const bool by_rows = std::ranges::any_of(op.inputs, is_fixed) || std::ranges::any_of(op.outputs, is_fixed);
    const auto loop = passes_ && !by_rows && op.overwrites.empty() ? std::optional(kNone) : loop_for(k, fixed);
    if (!loop) return false;
    loops_[k] = *loop;
  }
  return true;
}

// Along which a member runs; one without iterations, if it runs whole.
const Loop& Growth::loop(Index op) const { return loop_of(links_.graph, {op, loops_.at(op), false}); }

// Ops that are no members, but follow one and come before one; ascending.
std::vector<Index> Growth::between() const {
  const auto ops = links_.graph.ops().size();
  std::vector<bool> follows(ops, false), leads(ops, false);
  const auto marks = [&](Index k, const std::vector<bool>& mark) { return mark[at(k)] || loops_.contains(k); };
  for (Index k = 0; k < links_.graph.op_count(); ++k)
    for (const Index t : links_.graph.op(k).inputs)
      if (const Index maker = links_.maker[at(t)]; maker != kNone && marks(maker, follows)) follows[at(k)] = true;
  for (Index k = links_.graph.op_count(); k-- > 0;)
    for (const Index t : links_.graph.op(k).outputs)
      for (const Index reader : links_.readers[at(t)])
        if (marks(reader, leads)) leads[at(k)] = true;
  std::vector<Index> found;
  for (Index k = 0; k < links_.graph.op_count(); ++k)
    if (follows[at(k)] && leads[at(k)] && !loops_.contains(k)) found.push_back(k);
  return found;
}

// The largest root that members go along, and that has not been tried.
std::optional<Index> Growth::edge() const {
  std::optional<Index> most;
  const auto consider = [&](Index t) {
    const Index root = links_.root[at(t)];
    if (links_.maker[at(root)] == kNone || tried_.contains(root)) return;
    const Bytes bytes = links_.graph.tensor(root).bytes;
    const Bytes best = most ? links_.graph.tensor(*most).bytes : -1;
    if (bytes > best || (bytes == best && root < *most)) most = root;
  };
  for (const auto& [k, _] : loops_) {
    const Op& op = links_.graph.op(k);
    for (const LoopRead& read : loop(k).reads) consider(op.inputs[at(read.input)]);
    for (const LoopWrite& write : loop(k).writes) consider(op.outputs[at(write.output)]);
  }
  return most;
}

std::optional<Axes> Growth::axes_by_members(Index tensor) const {
  const auto member = [&](Index k) -> const Loop* { return loops_.contains(k) ? &loop(k) : nullptr; };
  if (const Index k = links_.maker[at(tensor)]; k != kNone)
    if (const Loop* loop = member(k))
      if (const LoopWrite* write = write_of(links_.graph.op(k), *loop, tensor)) return write->axes;
  for (const Index k : links_.readers[at(tensor)])
    if (const Loop* loop = member(k))
      if (const LoopRead* read = read_of(links_.graph.op(k), *loop, tensor)) return read->axes;
  return std::nullopt;
}

std::optional<Index> Growth::loop_for(Index k, const AxesOf& fixed) const {
  const Op& op = links_.graph.op(k);
  if (!op.overwrites.empty()) return std::nullopt;
  for (std::size_t l = 0; l < op.loops.size(); ++l)
    if (goes_along(op, op.loops[l], fixed)) return static_cast<Index>(l);
  return std::nullopt;
}

// The op that makes it, all its views, and all ops that read these.
bool Growth::take_in(Index root) {
  if (links_.stays[at(root)]) return false;
  const std::vector<Index>& family = links_.family[at(root)];
  AxesOf fixed = inside_;
  for (const Index t : family)
    if (const auto axes = axes_by_members(t)) fixed[t] = *axes;
  Loops loops = loops_;
  // Axes pass from a view to what it shows and back, through the loop of the op that makes the view.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Index t : family) {
      const Index k = links_.maker[at(t)];
      const Op& op = links_.graph.op(k);
      if (t == root || loops.contains(k)) continue;
      const bool known = std::any_of(op.inputs.begin(), op.inputs.end(), [&](Index u) { return fixed.contains(u); }) ||
                         std::any_of(op.outputs.begin(), op.outputs.end(), [&](Index u) { return fixed.contains(u); });
      if (!known) continue;
      const auto loop = loop_for(k, fixed);
      if (!loop) return false;
      loops[k] = *loop;
      changed = true;
      for (const LoopRead& read : op.loops[at(*loop)].reads)
        if (const Index u = op.inputs[at(read.input)]; links_.root[at(u)] == root) fixed[u] = read.axes;
      for (const LoopWrite& write : op.loops[at(*loop)].writes) fixed[op.outputs[at(write.output)]] = write.axes;
    }
  }
  std::vector<Index> needed{links_.maker[at(root)]};
  for (const Index t : family) {
    if (!fixed.contains(t)) return false;
    needed.insert(needed.end(), links_.readers[at(t)].begin(), links_.readers[at(t)].end());
  }
  for (const Index k : needed) {
    const auto member = loops.find(k);
    if (member != loops.end()) {
      if (!goes_along(links_.graph.op(k), loop_of(links_.graph, {k, member->second, false}), fixed)) return false;
      continue;
    }
    const auto loop = loop_for(k, fixed);
    if (!loop) return false;
    loops[k] = *loop;
  }
  loops_ = std::move(loops);
  for (const Index t : family) inside_[t] = fixed[t];
  return true;
}

// The op that makes it, and those that read it, each if it goes along the same axes.
void Growth::reach_beyond(Index root) {
  const auto axes = axes_by_members(root);
  if (!axes) return;
  AxesOf fixed = inside_;
  fixed[root] = *axes;
  std::vector<Index> ops = links_.readers[at(root)];
  ops.push_back(links_.maker[at(root)]);
  for (const Index k : ops) {
    if (loops_.contains(k) || !links_.graph.op(k).aliases.empty()) continue;
    if (const auto loop = loop_for(k, fixed)) extend([&] { return loops_.emplace(k, *loop).second; });
  }
}

}  // namespace memplan
