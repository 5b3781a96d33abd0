#include "fit/rewrite.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace memplan {

namespace {

// Names that nothing has yet: "t~1", "t~2", ...
class NewNames {
 public:
  void take(const std::string& name) { taken_.insert(name); }

  // The name, or a copy of it if something has it.
  std::string first(const std::string& name) { return taken_.insert(name).second ? name : copy_of(name); }

  std::string copy_of(const std::string& name) {
    int& number = copies_[name];
    std::string copy;
    do copy = name + "~" + std::to_string(++number);
    while (taken_.contains(copy));
    taken_.insert(copy);
    return copy;
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> copies_;
};

// Which tensor stands for one of the graph now.
struct CurrentName {
  Index round = 0;  // how often its root had been made again
  std::string name;
};

class Rewriter {
 public:
  Rewriter(const Graph& graph, const std::vector<OpFacts>& facts)
      : graph_(graph),
        root_(roots_of(graph)),
        changed_(changed_roots(graph, facts, root_)),
        maker_(graph.tensors().size(), kNone),
        is_output_(graph.tensors().size(), false),
        stand_(graph.tensors().size()),
        round_(graph.tensors().size(), 0),
        used_by_(graph.tensors().size()),
        written_by_(graph.tensors().size()),
        writer_(graph.tensors().size()),
        moved_out_(graph.tensors().size()),
        whole_(graph.tensors().size()),
        read_by_(graph.tensors().size()) {
    for (Index t = 0; t < graph.tensor_count(); ++t) {
      names_.take(graph.tensor(t).name);
      stand_[at(t)].name = graph.tensor(t).name;
      if (root_[at(t)] == t) whole_[at(t)].push_back(t);
    }
    for (const Index t : graph.outputs()) is_output_[at(root_[at(t)])] = true;
    for (Index k = 0; k < graph.op_count(); ++k) {
      op_names_.take(graph.op(k).name);
      for (const Index t : graph.op(k).outputs) maker_[at(t)] = k;
      for (const Index r : changed_[at(k)])
        for (const Index t : graph.op(k).outputs)
          if (root_[at(t)] == r && t != r) whole_[at(r)].push_back(t);
    }
    spec_.tensors = graph.tensors();
    for (const Index t : graph.outputs()) spec_.outputs.push_back(graph.tensor(t).name);
  }

  // An op that runs for the first time.
  void run(Index k) {
    const Op& op = graph_.op(k);
    OpSpec spec = spec_of(graph_, op);
    rename(op, spec, {});
    for (const Index t : op.outputs) {
      stand_[at(t)] = {round_[at(root_[at(t)])], graph_.tensor(t).name};
      used_by_[at(root_[at(t)])] = op.name;
    }
    for (const Index r : changed_[at(k)]) {
      spec.after.insert(spec.after.end(), read_by_[at(r)].begin(), read_by_[at(r)].end());
      read_by_[at(r)].clear();
      writer_[at(r)] = op.name;
    }
    spec_.ops.push_back(std::move(spec));
  }

  // An op that runs again; `change` is told of it.
  void run_again(Index k, Change& change) {
    const Op& op = graph_.op(k);
    std::vector<Index> own;
    for (const Index t : op.outputs) {
      const bool shows_own = root_[at(t)] == t || std::find(changed_[at(k)].begin(), changed_[at(k)].end(),
                                                            root_[at(t)]) != changed_[at(k)].end();
      if (shows_own) own.push_back(t);
    }
    OpSpec spec = spec_of(graph_, op);
    spec.name = op_names_.copy_of(op.name);
    std::unordered_map<std::string, std::string> copies;
    for (const Index t : own) copies[graph_.tensor(t).name] = copy_tensor(t);
    rename(op, spec, copies);
    for (const Index r : changed_[at(k)]) written_by_[at(r)].push_back(spec.name);
    for (const Index t : op.inputs) read_by_[at(root_[at(t)])].push_back(spec.name);
    for (const Index t : own) {
      const Index r = root_[at(t)];
      if (is_output_[at(r)]) continue;
      if (r == t) {
        if (change.after.empty()) change.after = used_by_[at(r)];
        ++round_[at(r)];
        written_by_[at(r)].clear();
        change.tensors.push_back(graph_.tensor(t).name);
        change.bytes += graph_.tensor(t).bytes;
      }
      stand_[at(t)] = {round_[at(r)], copies[graph_.tensor(t).name]};
    }
    change.ops.push_back(spec.name);
    spec_.ops.push_back(std::move(spec));
  }

  // Keeps the bytes of a tensor, as they are now, outside of the arena.
  void move_out(Index t, Change& change) {
    OpSpec spec;
    spec.name = op_names_.first(graph_.tensor(t).name + "~out");
    spec.type = kMoveOut;
    spec.inputs = {stand_[at(t)].name};
    if (!writer_[at(t)].empty()) spec.after = {writer_[at(t)]};
    spec.recompute = false;
    moved_out_[at(t)] = spec.name;
    change.ops.push_back(spec.name);
    spec_.ops.push_back(std::move(spec));
  }

  // Brings a tensor back that was moved out.
  void fetch(Index t, Change& change) {
    if (change.after.empty()) change.after = used_by_[at(t)];
    OpSpec spec;
    spec.name = op_names_.first(graph_.tensor(t).name + "~in");
    spec.type = kFetch;
    spec.outputs = {copy_tensor(t)};
    spec.after = {moved_out_[at(t)]};
    spec.recompute = false;
    ++round_[at(t)];
    written_by_[at(t)].clear();
    for (const Index shown : whole_[at(t)]) stand_[at(shown)] = {round_[at(t)], spec.outputs.front()};
    change.tensors.push_back(graph_.tensor(t).name);
    change.bytes += graph_.tensor(t).bytes;
    change.ops.push_back(spec.name);
    spec_.ops.push_back(std::move(spec));
  }

  GraphSpec take() { return std::move(spec_); }

 private:
  std::string copy_tensor(Index t) {
    Tensor copy = graph_.tensor(t);
    copy.name = names_.copy_of(copy.name);
    if (copy.kind == TensorKind::output) copy.kind = TensorKind::intermediate;
    spec_.tensors.push_back(copy);
    return spec_.tensors.back().name;
  }

  // The newest of a tensor; a view of what was made again is made again.
  std::string newest(Index t) {
    const Index r = root_[at(t)];
    if (stand_[at(t)].round == round_[at(r)]) return stand_[at(t)].name;
    make_view(maker_[at(t)]);
    return stand_[at(t)].name;
  }

  void make_view(Index k) {
    const Op& op = graph_.op(k);
    OpSpec spec;
    spec.type = op.type;
    spec.stream = op.stream;
    std::unordered_set<std::string> read;
    for (const View& view : op.aliases) {
      if (is_current(view.output)) continue;
      const std::string input = newest(view.input);
      if (read.insert(input).second) spec.inputs.push_back(input);
      const std::string output = copy_tensor(view.output);
      spec.outputs.push_back(output);
      spec.aliases.push_back({output, input, view.offset});
      stand_[at(view.output)] = {round_[at(root_[at(view.output)])], output};
    }
    spec.name = op_names_.copy_of(op.name);
    spec_.ops.push_back(std::move(spec));
  }

  bool is_current(Index t) const { return stand_[at(t)].round == round_[at(root_[at(t)])]; }

  // Lets an op read the newest tensors, and write `copies` of its outputs; those that have none are left out.
  void rename(const Op& op, OpSpec& spec, const std::unordered_map<std::string, std::string>& copies) {
    std::unordered_map<std::string, std::string> input;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Index t = op.inputs[i];
      input[spec.inputs[i]] = newest(t);
      used_by_[at(root_[at(t)])] = spec.name;
      spec.inputs[i] = newest(t);
      const std::vector<std::string>& writers = written_by_[at(root_[at(t)])];
      if (round_[at(root_[at(t)])] == 0) continue;
      for (const std::string& writer : writers)
        if (std::find(spec.after.begin(), spec.after.end(), writer) == spec.after.end()) spec.after.push_back(writer);
    }
    const auto output = [&](std::string& name) {
      if (copies.empty()) return true;
      const auto found = copies.find(name);
      if (found == copies.end()) return false;
      name = found->second;
      return true;
    };
    std::erase_if(spec.outputs, [&](std::string& name) { return !output(name); });
    for (auto* views : {&spec.aliases, &spec.inplace, &spec.overwrites, &spec.slices, &spec.concats})
      std::erase_if(*views, [&](BasicView<std::string>& view) {
        if (!output(view.output)) return true;
        if (const auto found = input.find(view.input); found != input.end()) view.input = found->second;
        return false;
      });
  }

  const Graph& graph_;
  std::vector<Index> root_;                           // per tensor
  std::vector<std::vector<Index>> changed_;           // per op, roots
  std::vector<Index> maker_;                          // per tensor
  std::vector<bool> is_output_;                       // per root
  std::vector<CurrentName> stand_;                    // per tensor
  std::vector<Index> round_;                          // per root
  std::vector<std::string> used_by_;                  // per root, the op that used it last
  std::vector<std::vector<std::string>> written_by_;  // per root, the copies of ops that have changed it this round
  std::vector<std::string> writer_;                   // per root, the op that changed it last
  std::vector<std::string> moved_out_;                // per root, the op that moved it out
  std::vector<std::vector<Index>> whole_;             // per root, the tensors that a fetched one stands for
  std::vector<std::vector<std::string>> read_by_;     // per root, the copies of ops that read it
  NewNames names_, op_names_;
  GraphSpec spec_;
};

}  // namespace

std::vector<Copy> copies_of(const FitModel& model, const std::vector<Rerun>& reruns) {
  std::vector<Copy> copies;
  for (std::size_t begin = 0, end = 0; begin < reruns.size(); begin = end) {
    std::vector<Index> units;
    for (; end < reruns.size() && reruns[end].stage == reruns[begin].stage; ++end) units.push_back(reruns[end].unit);
    for (const FitStep& step : before_stage(model, reruns[begin].stage, units)) {
      const auto place = std::find(units.begin(), units.end(), step.unit) - units.begin();
      copies.push_back({step.op, begin + static_cast<std::size_t>(place)});
    }
  }
  return copies;
}

Rewritten rewritten(const Graph& graph, const std::vector<OpFacts>& facts, const FitModel& model,
                    const std::vector<Rerun>& reruns, const std::vector<Copy>& copies) {
  Rewriter rewriter(graph, facts);
  std::vector<Change> changes;
  std::vector<std::vector<std::size_t>> moved_out(graph.ops().size());  // per stage: the first rerun of each unit
  std::unordered_set<Index> seen;
  for (std::size_t r = 0; r < reruns.size(); ++r) {
    const Unit& unit = model.units[at(reruns[r].unit)];
    changes.push_back({{}, {}, {}, graph.op(reruns[r].stage).name, 0, unit.cost, unit.moved != kNone});
    if (!seen.insert(reruns[r].unit).second) continue;
    changes.back().cost += unit.once;
    if (unit.moved != kNone) moved_out[at(unit.from)].push_back(r);
  }
  auto next = copies.begin();
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (const std::size_t r : moved_out[at(k)]) rewriter.move_out(model.units[at(reruns[r].unit)].moved, changes[r]);
    for (; next != copies.end() && reruns[next->rerun].stage == k; ++next) {
      Change& change = changes[next->rerun];
      if (next->op == kNone)
        rewriter.fetch(model.units[at(reruns[next->rerun].unit)].moved, change);
      else
        rewriter.run_again(next->op, change);
    }
    rewriter.run(k);
  }
  return {Graph(rewriter.take()), std::move(changes)};
}

}  // namespace memplan
