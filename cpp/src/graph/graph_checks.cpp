#include "graph/graph_checks.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::ptrdiff_t kMostBodies = 100;  // of bodies
constexpr std::size_t kListedOps = 10;       // that a message about a cycle names

std::string op_name(const Graph& graph, Index k) { return "op " + quoted(graph.op(k).name); }
std::string tensor_name(const Graph& graph, Index t) { return "tensor " + quoted(graph.tensor(t).name); }
std::string kind_name(TensorKind kind) {
  const bool vowel = kind == TensorKind::input || kind == TensorKind::intermediate || kind == TensorKind::output;
  return (vowel ? "an " : "a ") + std::string(to_string(kind));
}
std::string range(Bytes begin, Bytes size) {
  return "[" + std::to_string(begin) + ", " + std::to_string(begin) + " + " + std::to_string(size) + ")";
}

bool contains(const std::vector<Index>& tensors, Index t) {
  return std::find(tensors.begin(), tensors.end(), t) != tensors.end();
}

// Per tensor, the op that writes it; kNone for inputs and weights.
std::vector<Index> producers_of(const Graph& graph) {
  std::vector<Index> producer(graph.tensors().size(), kNone);
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index t : graph.op(k).outputs) {
      const TensorKind kind = graph.tensor(t).kind;
      if (kind == TensorKind::input || kind == TensorKind::weight)
        throw GraphError(op_name(graph, k) + " writes " + tensor_name(graph, t) + ", which is " + kind_name(kind) +
                         "; only intermediates, outputs and workspaces are written");
      Index& writer = producer[at(t)];
      if (writer != kNone)
        throw GraphError(tensor_name(graph, t) + " is written twice, by " + op_name(graph, writer) + " and by " +
                         op_name(graph, k));
      writer = k;
    }
  }
  return producer;
}

void check_produced(const Graph& graph, const std::vector<Index>& producer) {
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const TensorKind kind = graph.tensor(t).kind;
    const bool given = kind == TensorKind::input || kind == TensorKind::weight;
    if (!given && producer[at(t)] == kNone)
      throw GraphError(tensor_name(graph, t) + " is " + kind_name(kind) + " that no op writes");
  }
}

// A cycle among the ops through what they read, if there is one: "a -> b -> a". Depth first, without recursion.
std::string find_cycle(const Graph& graph, const std::vector<Index>& producer) {
  enum State : char { unseen, open, done };
  std::vector<char> state(graph.ops().size(), unseen);
  std::vector<std::pair<Index, std::size_t>> path;  // op and how many of its inputs have been followed
  for (Index start = 0; start < graph.op_count(); ++start) {
    if (state[at(start)] == unseen) path.emplace_back(start, 0);
    while (!path.empty()) {
      const Index k = path.back().first;
      state[at(k)] = open;
      const auto& inputs = graph.op(k).inputs;
      if (path.back().second == inputs.size()) {
        state[at(k)] = done;
        path.pop_back();
        continue;
      }
      const Index next = producer[at(inputs[path.back().second++])];
      if (next == kNone || state[at(next)] == done) continue;
      if (state[at(next)] == unseen) {
        path.emplace_back(next, 0);
        continue;
      }
      std::string cycle = quoted(graph.op(next).name);  // the path runs from readers to producers
      std::size_t listed = 0;
      for (auto it = path.rbegin(); it->first != next; ++it)
        if (++listed <= kListedOps) cycle += " -> " + quoted(graph.op(it->first).name);
      if (listed > kListedOps) cycle += " -> (" + std::to_string(listed - kListedOps) + " more)";
      cycle += " -> " + quoted(graph.op(next).name);
      return cycle;
    }
  }
  return {};
}

[[noreturn]] void throw_used_early(const Graph& graph, const std::vector<Index>& producer, Index k, Index t) {
  const Index writer = producer[at(t)];
  if (const std::string cycle = find_cycle(graph, producer); !cycle.empty())
    throw GraphError("the graph has a cycle: ops " + cycle + "; " + op_name(graph, k) + " reads " +
                     tensor_name(graph, t) + ", which " + op_name(graph, writer) + " writes");
  throw GraphError(op_name(graph, k) + " (step " + std::to_string(k) + ") reads " + tensor_name(graph, t) + " before " +
                   op_name(graph, writer) + " (step " + std::to_string(writer) +
                   ") writes it; ops must be listed in execution order");
}

void check_order(const Graph& graph, const std::vector<Index>& producer) {
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index t : graph.op(k).inputs)
      if (producer[at(t)] >= k) throw_used_early(graph, producer, k, t);
    for (Index before : graph.op(k).after)
      if (before >= k)
        throw GraphError(op_name(graph, k) + " (step " + std::to_string(k) + ") runs after " + op_name(graph, before) +
                         " (step " + std::to_string(before) + "); ops must be listed in execution order");
  }
}

// An op reads a tensor that is not there in any of its runs: only such as merge branches read what not all runs have.
void check_branches(const Graph& graph, const std::vector<Index>& producer) {
  if (!graph.branches()) return;
  for (Index k = 0; k < graph.op_count(); ++k)
    for (Index t : graph.op(k).inputs)
      if (const Index writer = producer[at(t)]; writer != kNone && !graph.branches()->coexist(writer, k))
        throw GraphError(op_name(graph, k) + " of branch " + quoted(graph.op(k).branch) + " reads " +
                         tensor_name(graph, t) + ", which exists only in branch " + quoted(graph.op(writer).branch));
}

// The paths of a body and of all bodies around it, the outermost first: of "a/b", "a" and "a/b".
std::vector<std::string> bodies_around(const std::string& body) {
  std::vector<std::string> paths;
  for (std::size_t end = body.find('/'); !body.empty(); end = body.find('/', end + 1)) {
    paths.push_back(body.substr(0, end));
    if (end == std::string::npos) break;
  }
  return paths;
}

// No op of another body runs between the ops of a body.
void check_bodies(const Graph& graph) {
  std::vector<std::string> open;       // of the op before
  std::map<std::string, Index> ended;  // per body that was left, the op that runs next
  for (Index k = 0; k < graph.op_count(); ++k) {
    const std::string& body = graph.op(k).body;
    if (body.starts_with('/') || body.ends_with('/') || body.find("//") != std::string::npos)
      throw GraphError(op_name(graph, k) + ": body must be names with / between them, as \"loop1/loop2\", got " +
                       quoted(body));
    if (std::ranges::count(body, '/') >= kMostBodies)
      throw GraphError(op_name(graph, k) + " is in more than " + std::to_string(kMostBodies) + " bodies");
    const std::vector<std::string> now = bodies_around(body);
    for (const std::string& path : open)
      if (std::ranges::find(now, path) == now.end()) ended.emplace(path, k);
    for (const std::string& path : now)
      if (const auto end = ended.find(path); end != ended.end())
        throw GraphError(op_name(graph, k) + " is of body " + quoted(path) + ", between whose ops " +
                         op_name(graph, end->second) + " runs; ops of a body must be listed one after the other");
    open = now;
  }
}

void check_workspaces(const Graph& graph, const std::vector<Index>& producer) {
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    if (op.workspace < 0)
      throw GraphError(op_name(graph, k) + ": workspace must be >= 0 bytes, got " + std::to_string(op.workspace));
    for (const auto& [said, value] : {std::pair{"cost", op.cost}, {"flops", op.flops}})
      if (value && (!std::isfinite(*value) || *value < 0))
        throw GraphError(op_name(graph, k) + ": " + said + " must be finite and >= 0, got " + std::to_string(*value));
    for (Index t : op.inputs)
      if (graph.tensor(t).kind == TensorKind::workspace)
        throw GraphError(op_name(graph, k) + " reads " + tensor_name(graph, t) + ", the workspace of " +
                         op_name(graph, producer[at(t)]) + "; a workspace lives in its op alone");
  }
  for (Index t : graph.outputs())
    if (graph.tensor(t).kind == TensorKind::workspace)
      throw GraphError(tensor_name(graph, t) + " is a workspace and cannot be a graph output");
}

// The rows of a tensor along which a loop goes; the tensor has a shape with these axes, and bytes for each row.
std::int64_t rows_along(const Graph& graph, Index k, Index t, const Axes& axes) {
  const auto& shape = graph.tensor(t).shape;
  if (!shape)
    throw GraphError(op_name(graph, k) + ": a loop goes along " + tensor_name(graph, t) + ", which has no shape");
  if (axes.first < 0 || axes.first > axes.last || at(axes.last) >= shape->size())
    throw GraphError(op_name(graph, k) + ": a loop goes along axes [" + std::to_string(axes.first) + ", " +
                     std::to_string(axes.last) + "] of " + tensor_name(graph, t) + ", which has " +
                     std::to_string(shape->size()));
  return rows_of(graph.tensor(t), axes);
}

bool share_axes(const Axes& a, const Axes& b) { return a.first <= b.last && b.first <= a.last; }

// Ordered loops are loops of the op, each once, and no two of them go along the same axes of a tensor.
void check_ordered(const Graph& graph, Index k) {
  const Op& op = graph.op(k);
  const auto refuse = [&](const std::string& what) { throw GraphError(op_name(graph, k) + ": ordered " + what); };
  if (op.reads_first && op.ordered.empty())
    throw GraphError(op_name(graph, k) + ": reads_first says something of ordered loops, and none is ordered");
  const auto apart = [&](Index t, const Axes& a, const Axes& b) {
    if (share_axes(a, b)) refuse("names two loops along the same axes of " + tensor_name(graph, t));
  };
  for (std::size_t i = 0; i < op.ordered.size(); ++i) {
    const Index l = op.ordered[i];
    if (l < 0 || at(l) >= op.loops.size())
      refuse("names loop " + std::to_string(l) + ", and the op has " + std::to_string(op.loops.size()));
    if (op.loops[at(l)].statistics)
      refuse("names loop " + std::to_string(l) + ", which has statistics, so that its inputs are read twice");
    for (std::size_t j = 0; j < i; ++j) {
      if (op.ordered[j] == l) refuse("names loop " + std::to_string(l) + " twice");
      const Loop &inner = op.loops[at(l)], &outer = op.loops[at(op.ordered[j])];
      for (const LoopRead& a : inner.reads)
        for (const LoopRead& b : outer.reads)
          if (a.input == b.input) apart(op.inputs[at(a.input)], a.axes, b.axes);
      for (const LoopWrite& a : inner.writes)
        for (const LoopWrite& b : outer.writes)
          if (a.output == b.output) apart(op.outputs[at(a.output)], a.axes, b.axes);
    }
  }
}

void check_loops(const Graph& graph) {
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    for (const Loop& loop : op.loops) {
      if (const std::string wrong = wrong_loop(loop, op.inputs.size(), op.outputs.size()); !wrong.empty())
        throw GraphError(op_name(graph, k) + ": loop: " + wrong);
      for (const LoopRead& read : loop.reads) {
        const Index t = op.inputs[at(read.input)];
        const std::int64_t rows = rows_along(graph, k, t, read.axes);
        const bool counts =
            loop.statistics && std::ranges::find(loop.statistics->inputs, read.input) != loop.statistics->inputs.end();
        if (counts && rows_read(read, {0, loop.extent}, rows) != RowRange{0, rows})
          throw GraphError(op_name(graph, k) + ": a loop of " + std::to_string(loop.extent) + " iterations reads " +
                           std::to_string(read.step) + " rows of " + tensor_name(graph, t) + " in each, which has " +
                           std::to_string(rows) + ", for its statistics");
      }
      for (const LoopWrite& write : loop.writes) {
        const Index t = op.outputs[at(write.output)];
        const std::int64_t rows = rows_along(graph, k, t, write.axes);
        if (rows_written(write, {0, loop.extent}, rows).end < rows)
          throw GraphError(op_name(graph, k) + ": a loop of " + std::to_string(loop.extent) + " iterations writes " +
                           std::to_string(write.step) + " rows of " + tensor_name(graph, t) + " in each, which has " +
                           std::to_string(rows));
      }
    }
    check_ordered(graph, k);
  }
}

// Follows views through the graph: where each tensor lies in its root, and whether what it held is still there.
class ViewChecker {
 public:
  explicit ViewChecker(const Graph& graph)
      : graph_(graph),
        root_(graph.tensors().size()),
        offset_(graph.tensors().size(), 0),
        written_(graph.tensors().size(), kNone),
        overwritten_(graph.tensors().size()) {
    for (Index t = 0; t < graph.tensor_count(); ++t) root_[at(t)] = t;
  }

  void run() {
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const Op& op = graph_.op(k);
      for (Index t : op.inputs) check_intact(t, op_name(graph_, k) + " reads ");
      for (Index t : op.outputs) written_[at(t)] = k;
      for (const View& view : op.aliases) place(k, view, "alias");
      for (const View& view : op.aliases) written_[at(view.output)] = written_[at(view.input)];
      for (const View& view : op.overwrites) overwrite(k, view);
      for (const View& view : op.overwrites) check_alone(k, view.output);
      for (const View& view : op.inplace) check_may(k, view, "inplace");
      for (const View& view : op.inplace)
        if (view.offset != 0) check_inside(k, view, "inplace");  // without one, what does not fit is not put there
      for (const View& view : op.slices) check_may(k, view, "slice");
      for (const View& view : op.slices) check_inside(k, view, "slice");
      check_concats(k, op.concats);
    }
    for (Index t : graph_.outputs()) check_intact(t, "the caller gets output ");
  }

 private:
  struct Overwrite {
    Bytes end;
    Index op;
  };
  using Overwrites = std::map<Bytes, Overwrite>;  // the last of every byte, by first byte; disjoint

  void check_ends(Index k, const View& view, const std::string& relation) const {
    const Op& op = graph_.op(k);
    if (!contains(op.outputs, view.output))
      throw GraphError(op_name(graph_, k) + ": " + relation + " output " + tensor_name(graph_, view.output) +
                       " is not an output of that op");
    if (!contains(op.inputs, view.input))
      throw GraphError(op_name(graph_, k) + ": " + relation + " input " + tensor_name(graph_, view.input) +
                       " is not an input of that op");
  }

  void place(Index k, const View& view, const std::string& relation) {
    check_ends(k, view, relation);
    const Index output = view.output;
    if (root_[at(output)] != output)
      throw GraphError(op_name(graph_, k) + ": " + tensor_name(graph_, output) +
                       " is placed by two views; an output has one alias or one overwrite at most");
    check_inside(k, view, relation);
    if (graph_.tensor(output).kind == TensorKind::workspace)
      throw GraphError(op_name(graph_, k) + ": workspace " + tensor_name(graph_, output) + " cannot be an " + relation +
                       " of " + tensor_name(graph_, view.input) + "; its bytes are the op's own");
    root_[at(output)] = root_[at(view.input)];
    offset_[at(output)] = offset_[at(view.input)] + view.offset;
  }

  // A relation that the plan may use or not.
  void check_may(Index k, const View& view, const std::string& relation) const {
    check_ends(k, view, relation);
    if (graph_.tensor(view.output).kind == TensorKind::workspace)
      throw GraphError(op_name(graph_, k) + ": workspace " + tensor_name(graph_, view.output) + " cannot be an " +
                       relation + " of " + tensor_name(graph_, view.input) + "; its bytes are the op's own");
  }

  // The parts of a concatenation lie inside the whole and apart from each other.
  void check_concats(Index k, std::vector<View> parts) const {
    for (const View& part : parts) {
      check_may(k, part, "concat");
      const Bytes bytes = graph_.tensor(part.input).bytes;
      const Bytes room = graph_.tensor(part.output).bytes;
      if (part.offset < 0 || part.offset > room || bytes > room - part.offset)
        throw GraphError(op_name(graph_, k) + ": concat puts " + tensor_name(graph_, part.input) + " at bytes " +
                         range(part.offset, bytes) + " of " + tensor_name(graph_, part.output) + ", outside its " +
                         std::to_string(room) + " bytes");
    }
    std::erase_if(parts, [&](const View& part) { return graph_.tensor(part.input).bytes == 0; });
    std::sort(parts.begin(), parts.end(), [](const View& a, const View& b) {
      return a.output != b.output ? a.output < b.output : a.offset < b.offset;
    });
    for (std::size_t i = 1; i < parts.size(); ++i)
      if (parts[i - 1].output == parts[i].output &&
          parts[i].offset - parts[i - 1].offset < graph_.tensor(parts[i - 1].input).bytes)
        throw GraphError(op_name(graph_, k) + ": concat puts " + tensor_name(graph_, parts[i - 1].input) + " and " +
                         tensor_name(graph_, parts[i].input) + " at the same bytes of " +
                         tensor_name(graph_, parts[i].output));
  }

  // A view lies inside its input, and so, through its input, inside its root.
  void check_inside(Index k, const View& view, const std::string& relation) const {
    const Bytes bytes = graph_.tensor(view.output).bytes;
    const Bytes room = graph_.tensor(view.input).bytes;
    if (view.offset >= 0 && view.offset <= room && bytes <= room - view.offset) return;
    const Index root = root_[at(view.input)];
    throw GraphError(
        op_name(graph_, k) + ": " + relation + " puts " + tensor_name(graph_, view.output) + " at bytes " +
        range(view.offset, bytes) + " of " + tensor_name(graph_, view.input) + ", outside its " + std::to_string(room) +
        " bytes" +
        (root == view.input ? "" : "; to view more of its root, make " + tensor_name(graph_, root) + " the input"));
  }

  void overwrite(Index k, const View& view) {
    place(k, view, "overwrite");
    const Bytes begin = offset_[at(view.output)];
    const Bytes end = begin + graph_.tensor(view.output).bytes;
    if (begin == end) return;
    Overwrites& overwritten = overwritten_[at(root_[at(view.output)])];
    split_at(overwritten, begin);
    split_at(overwritten, end);
    overwritten.erase(overwritten.lower_bound(begin), overwritten.lower_bound(end));
    overwritten[begin] = {end, k};
  }

  static void split_at(Overwrites& overwritten, Bytes byte) {
    const auto after = overwritten.lower_bound(byte);
    if (after == overwritten.begin()) return;
    Overwrite& before = std::prev(after)->second;
    if (before.end <= byte) return;
    overwritten.emplace_hint(after, byte, before);
    before.end = byte;
  }

  // What an op overwrites must be apart from the op's other outputs in the same root.
  void check_alone(Index k, Index overwritten) const {
    for (Index t : graph_.op(k).outputs)
      if (t != overwritten && root_[at(t)] == root_[at(overwritten)] && share_bytes(t, overwritten))
        throw GraphError(op_name(graph_, k) + " overwrites bytes with " + tensor_name(graph_, overwritten) +
                         " that its output " + tensor_name(graph_, t) + " takes too");
  }

  bool share_bytes(Index a, Index b) const {
    const Bytes begin = std::max(offset_[at(a)], offset_[at(b)]);
    return begin < std::min(offset_[at(a)] + graph_.tensor(a).bytes, offset_[at(b)] + graph_.tensor(b).bytes);
  }

  void check_intact(Index t, const std::string& who) const {
    const Bytes begin = offset_[at(t)];
    const Bytes end = begin + graph_.tensor(t).bytes;
    const Overwrites& overwritten = overwritten_[at(root_[at(t)])];
    auto it = overwritten.upper_bound(begin);
    if (it != overwritten.begin() && std::prev(it)->second.end > begin) --it;
    for (; begin < end && it != overwritten.end() && it->first < end; ++it)
      if (it->second.op > written_[at(t)])
        throw GraphError(who + tensor_name(graph_, t) + " after " + op_name(graph_, it->second.op) +
                         " has overwritten its bytes");
  }

  const Graph& graph_;
  std::vector<Index> root_;              // per tensor
  std::vector<Bytes> offset_;            // per tensor, from the beginning of its root
  std::vector<Index> written_;           // per tensor: the op that wrote the value that it shows
  std::vector<Overwrites> overwritten_;  // per root
};

}  // namespace

void check_graph(const Graph& graph) {
  const std::vector<Index> producer = producers_of(graph);
  check_produced(graph, producer);
  check_order(graph, producer);
  check_branches(graph, producer);
  if (has_bodies(graph)) check_bodies(graph);
  check_workspaces(graph, producer);
  check_loops(graph);
  ViewChecker(graph).run();
}

}  // namespace memplan
