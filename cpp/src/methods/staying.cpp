#include "methods/staying.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "memplan/errors.hpp"
#include "memplan/order.hpp"
#include "methods/joined.hpp"

namespace memplan {

namespace {

// Where a tensor lies: in the bytes of a root.
struct Inside {
  Index root;
  Bytes begin;
};

// Which tensors must lie in which; paths are shortened as they are walked.
class Roots {
 public:
  explicit Roots(const Graph& graph) : up_(at(graph.tensor_count())) {
    for (Index t = 0; t < graph.tensor_count(); ++t) up_[at(t)] = {t, 0};
    for (const Op& op : graph.ops())
      for (const auto* views : {&op.aliases, &op.overwrites})
        for (const View& view : *views) link(view);
  }

  void link(const View& view) { up_[at(view.output)] = {view.input, view.offset}; }

  Inside of(Index t) {
    way_.clear();
    for (; up_[at(t)].root != t; t = up_[at(t)].root) way_.push_back(t);
    Bytes begin = 0;
    for (auto below = way_.rbegin(); below != way_.rend(); ++below) {
      begin += up_[at(*below)].begin;
      up_[at(*below)] = {t, begin};
    }
    return {t, begin};
  }

 private:
  std::vector<Inside> up_;
  std::vector<Index> way_;
};

// What has to change in a graph so that some of its tensors stay.
class StayingGraph {
 public:
  explicit StayingGraph(const Method& method)
      : method_(method),
        own_(std::get<std::shared_ptr<const Graph>>(method.source)),
        graph_(*own_),
        roots_(graph_),
        made_by_(at(graph_.tensor_count()), kNone),
        owns_(at(graph_.tensor_count()), false) {
    for (Index k = 0; k < graph_.op_count(); ++k)
      for (const Index t : graph_.op(k).outputs) made_by_[at(t)] = k;
  }

  // Lets the tensors of one name stay.
  void keep(const std::string& name, const std::vector<std::string>& tensors) {
    const Index read = index_of(tensors.front()), written = index_of(tensors.back());
    const Inside lies = roots_.of(read);
    if (const Inside other = roots_.of(written); other.root != lies.root || other.begin != lies.begin)
      take(name, read, written);
    const TensorKind kind = graph_.tensor(lies.root).kind;
    if (!is_given(kind) && !among_outputs(lies.root))
      refuse(name, quoted(tensors.front()) + " is an " + std::string(to_string(kind)) +
                       ": what stays must be an input, a weight, or an output of the graph");
    for (const std::string& excluded : graph_.layout().exclude)
      if (const auto t = graph_.find(excluded); t && roots_.of(*t).root == lies.root)
        refuse(name, quoted(excluded) + " is excluded from the arena");
    if (!owns_[at(lies.root)]) owners_.push_back(lies.root);
    owns_[at(lies.root)] = true;
    stays_.push_back({name, lies.root, lies.begin, lies.begin + graph_.tensor(read).bytes});
  }

  Prepared done() {
    Prepared found{own_, own_, method_.storage.place, {}, {}};
    if (owners_.empty()) return found;
    require_apart();
    found.place.add(TensorKind::weight);
    GraphSpec spec{{}, {}, {}, graph_.layout()};
    const Place& place = method_.storage.place;
    const bool given = !place.contains(TensorKind::weight) && !place.contains(TensorKind::input);
    if (!place.contains(TensorKind::weight) && !given) exclude_others(spec.layout.exclude);
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      Tensor& tensor = spec.tensors.emplace_back(graph_.tensor(t));
      if (owns_[at(t)] && is_given(tensor.kind))
        tensor.kind = TensorKind::weight;
      else if (given && tensor.kind == TensorKind::weight)
        tensor.kind = TensorKind::input;
    }
    for (const Index root : owners_) {
      if (is_given(graph_.tensor(root).kind)) continue;
      const std::string name = free_name(graph_.tensor(root).name + ".before");
      before_[root] = name;
      found.before.push_back(root);
      spec.tensors.push_back({name, graph_.tensor(root).bytes, TensorKind::weight});
    }
    for (const Index t : graph_.outputs()) spec.outputs.push_back(graph_.tensor(t).name);
    for (const Op& op : graph_.ops()) spec.ops.push_back(changed(op));
    try {
      found.graph = std::make_shared<const Graph>(std::move(spec));
    } catch (const GraphError& error) {
      std::string names;
      for (const Bound& stays : stays_) names += (names.empty() ? "" : ", ") + quoted(stays.name);
      throw GraphError("method " + quoted(method_.name) + ": " + names + " cannot stay where it is: " + error.what());
    }
    for (const auto& [output, view] : taken_) found.taken.push_back({output, view.input, view.offset});
    return found;
  }

 private:
  struct Bound {  // of what stays: its bytes [begin, end) in a root
    std::string name;
    Index root;
    Bytes begin, end;
  };

  static bool is_given(TensorKind kind) { return kind == TensorKind::input || kind == TensorKind::weight; }

  [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
    throw GraphError("shared " + quoted(name) + " in method " + quoted(method_.name) + ": " + why);
  }

  Index index_of(const std::string& name) const { return *graph_.find(name); }

  bool among_outputs(Index root) {
    return std::ranges::any_of(graph_.outputs(), [&](Index t) { return roots_.of(t).root == root; });
  }

  // Writes one tensor over another, through ops that may write in place.
  void take(const std::string& name, Index read, Index written) {
    const auto [target, begin] = roots_.of(read);
    if (graph_.tensor(target).kind != TensorKind::input || begin != 0 ||
        graph_.tensor(target).bytes != graph_.tensor(read).bytes)
      refuse(name, quoted(graph_.tensor(read).name) + " must be a whole input to be written over by " +
                       quoted(graph_.tensor(written).name));
    const std::vector<const View*> next = next_to(target);
    std::vector<const View*> way;
    for (Index here = roots_.of(written).root; here != target; here = roots_.of(way.back()->input).root) {
      if (next[at(here)] == nullptr) {
        const Index k = made_by_[at(here)];
        const std::string who =
            k == kNone ? "no op" : "op " + quoted(graph_.op(k).name) + " (" + graph_.op(k).type + ")";
        refuse(name, quoted(graph_.tensor(written).name) + " must be written over " + quoted(graph_.tensor(read).name) +
                         " in place, but " + who + " may not");
      }
      way.push_back(next[at(here)]);
    }
    for (const View* view : way) {
      roots_.link(*view);
      taken_.emplace(view->output, *view);
    }
    if (const Inside lies = roots_.of(written); lies.begin != 0)
      refuse(name, quoted(graph_.tensor(written).name) + " must be written over " + quoted(graph_.tensor(read).name) +
                       ", but begins " + std::to_string(lies.begin) + " bytes after it");
  }

  // Per root that may lie in the bytes of the target, through ops that may write in place, the first step there.
  std::vector<const View*> next_to(Index target) {
    std::vector<const View*> next(at(graph_.tensor_count()), nullptr);
    for (const Op& op : graph_.ops())
      for (const View& view : op.inplace) {
        const Inside lies = roots_.of(view.input);
        const bool leads = lies.root == target || next[at(lies.root)] != nullptr;
        const bool whole = view.offset == 0 && lies.begin == 0 && roots_.of(view.output).root == view.output;
        if (leads && whole && next[at(view.output)] == nullptr) next[at(view.output)] = &view;
      }
    return next;
  }

  void require_apart() const {
    std::vector<std::size_t> by_begin(stays_.size());
    for (std::size_t s = 0; s < stays_.size(); ++s) by_begin[s] = s;
    std::ranges::stable_sort(by_begin, {}, [&](std::size_t s) { return std::pair(stays_[s].root, stays_[s].begin); });
    for (std::size_t k = 1; k < by_begin.size(); ++k) {
      const auto [one, other] = std::minmax(by_begin[k - 1], by_begin[k]);
      const Bound &a = stays_[one], &b = stays_[other];
      if (a.root == b.root && a.begin < b.end && b.begin < a.end)
        refuse(b.name, "its bytes are those of " + quoted(a.name) + ", which is shared too");
    }
  }

  void exclude_others(std::vector<std::string>& exclude) const {
    std::unordered_set<std::string_view> known(exclude.begin(), exclude.end());
    std::vector<std::string> others;
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (const Tensor& tensor = graph_.tensor(t);
          tensor.kind == TensorKind::weight && !owns_[at(t)] && !known.contains(tensor.name))
        others.push_back(tensor.name);
    exclude.insert(exclude.end(), others.begin(), others.end());
  }

  std::string free_name(std::string name) const {
    while (graph_.find(name)) name += "_";
    return name;
  }

  // The op, which writes over what was there before, and has no other choice.
  OpSpec changed(const Op& op) const {
    OpSpec spec = spec_of(graph_, op);
    std::unordered_set<std::string> fixed;
    const auto write_over = [&](Index output, const std::string& input, Bytes offset) {
      fixed.insert(graph_.tensor(output).name);
      spec.overwrites.push_back({graph_.tensor(output).name, input, offset});
    };
    for (const Index t : op.outputs) {
      if (const auto view = taken_.find(t); view != taken_.end())
        write_over(t, graph_.tensor(view->second.input).name, view->second.offset);
      if (const auto name = before_.find(t); name != before_.end()) {
        spec.inputs.push_back(name->second);
        write_over(t, name->second, 0);
      }
    }
    for (auto* views : {&spec.inplace, &spec.slices, &spec.concats})
      std::erase_if(*views, [&](const auto& view) { return fixed.contains(view.output); });
    return spec;
  }

  const Method& method_;
  const std::shared_ptr<const Graph> own_;
  const Graph& graph_;
  Roots roots_;
  std::vector<Index> made_by_;  // per tensor; kNone where no op does
  std::vector<bool> owns_;      // per tensor, whether it owns bytes of what stays
  std::vector<Index> owners_;
  std::vector<Bound> stays_;
  std::unordered_map<Index, View> taken_;  // by output
  std::unordered_map<Index, std::string> before_;
};

// The problem with buffers named as the method's own tensors.
Problem renamed(const Problem& problem, const Graph& own, const Graph& planned, const std::vector<Index>& before) {
  if (before.empty()) return problem;
  Problem::Columns columns = problem.columns();
  std::unordered_map<std::string_view, Index> over;
  for (std::size_t k = 0; k < before.size(); ++k)
    over.emplace(planned.tensor(own.tensor_count() + static_cast<Index>(k)).name, before[k]);
  for (std::string& name : columns.names)
    if (const auto found = over.find(name); found != over.end()) name = own.tensor(found->second).name;
  return problem.with_columns(std::move(columns));
}

}  // namespace

std::pair<std::shared_ptr<const Graph>, Buffers> Prepared::restored(const Graph& planned, Buffers buffers) const {
  std::shared_ptr<const Graph> ordered = own;
  if (!std::ranges::equal(own->ops(), planned.ops(), {}, &Op::name, &Op::name))
    ordered = std::make_shared<const Graph>(reordered_like(*own, planned));
  const auto count = at(own->tensor_count());
  buffers.problem = renamed(buffers.problem, *own, planned, before);
  buffers.buffer_of_tensor.resize(count);
  buffers.offset_in_buffer.resize(count);
  buffers.root_of_tensor.resize(count);
  for (Index& root : buffers.root_of_tensor)
    if (at(root) >= count) root = before[at(root) - count];
  std::vector<Index> made_by(count, kNone);
  for (Index k = 0; k < ordered->op_count(); ++k)
    for (const Index t : ordered->op(k).outputs) made_by[at(t)] = k;
  for (const OverInput& view : taken) {
    buffers.shared.push_back({Sharing::inplace, made_by[at(view.output)], {view.output, view.input, view.offset}});
    if (own->tensor(view.input).kind == TensorKind::input) buffers.donated.push_back(view.input);
  }
  std::ranges::stable_sort(buffers.shared, {}, &Shared::op);
  return {std::move(ordered), std::move(buffers)};
}

Prepared prepared(const Method& method, std::size_t position, std::span<const Staying> shared) {
  StayingGraph made(method);
  for (const Staying& stays : shared)
    if (const auto& tensors = stays.tensors[position]; !tensors.empty()) made.keep(stays.name, tensors);
  return made.done();
}

Problem alive_throughout(const Problem& problem, const std::vector<bool>& staying, Bytes alignment) {
  if (std::ranges::find(staying, true) == staying.end() && alignment == 1) return problem;
  Problem::Columns columns = problem.columns();
  auto& [size, first, last, aligned, names] = columns;
  for (Bytes& each : aligned) each = common_alignment(each, alignment);
  const Step begin = first.empty() ? 0 : std::ranges::min(first), end = last.empty() ? 0 : std::ranges::max(last);
  std::vector<Part> parts;
  for (Index b = 0; b < problem.count(); ++b) {
    if (!staying[at(b)]) {
      parts.insert(parts.end(), problem.parts(b).begin(), problem.parts(b).end());
      continue;
    }
    first[at(b)] = begin;
    last[at(b)] = end;
  }
  return problem.with_shapes(std::move(parts)).with_columns(std::move(columns));
}

}  // namespace memplan
