// Random problems and graphs through every planner, against plain checks written here. Bounded: the first argument
// is the number of rounds, 250 by default; with "graphs" as the second only graphs are tried; the third is the seed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>

#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/registry.hpp"
#include "memplan/replay.hpp"
#include "memplan/reuse.hpp"
#include "memplan/sharing_bound.hpp"
#include "memplan/solve.hpp"
#include "memplan/verify.hpp"
#include "plain_checks.hpp"
#include "random_graph.hpp"

using namespace memplan;

namespace {

std::mt19937_64 generator(20240607);

// What the random graphs held, so that a run that tests nothing is seen.
struct Seen {
  int planned = 0, refused = 0, streams = 0, shapes = 0, edges = 0;
  std::map<Sharing, int> shared;

  void count(const Buffers& buffers) {
    ++planned;
    streams += buffers.problem.conflicts() != nullptr;
    shapes += buffers.problem.has_shapes();
    for (const Shared& s : buffers.shared) ++shared[s.how];
  }

  void print(int rounds) {
    std::printf(
        "%d graphs: %d planned, %d refused, %d on streams, %d with shapes; in place %d, slices %d, concats %d, "
        "reuse edges %d\n",
        rounds, planned, refused, streams, shapes, shared[Sharing::inplace], shared[Sharing::slice],
        shared[Sharing::concat], edges);
  }
} seen;

int below(int limit) { return static_cast<int>(generator() % static_cast<std::uint64_t>(limit)); }

Problem random_problem() {
  const int n = below(40);
  const int steps = 1 + below(30);
  const int most = 1 << below(12);
  const Bytes scale = below(4) ? 1 : Bytes{1} << 44;  // sums near 2^62
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  for (int i = 0; i < n; ++i) {
    size.push_back(below(most) * scale);
    first.push_back(below(steps) - steps / 2);
    last.push_back(first.back() + 1 + below(steps));
    alignment.push_back(below(2) ? 1 : below(4) ? 1 + below(64) : Bytes{1} << below(21));
  }
  return Problem(size, first, last, alignment);
}

// The planner's name, with a small budget where it has one: the run is about many problems.
std::string briefly(const PlannerInfo& planner) {
  std::string name(planner.name);
  for (const Parameter& parameter : planner.parameters)
    for (const auto& [budget, amount] :
         {std::pair{"nodes", 200}, {"iterations", 20}, {"placements", 500}, {"work", 5000}, {"effort", 5000}})
      if (parameter.name == budget) return name + ":" + budget + "=" + std::to_string(amount);
  return name;
}

void check_planners(const Problem& problem) {
  for (const PlannerInfo& planner : planners()) {
    try {
      const Plan plan = solve(problem, briefly(planner));
      CHECK(plain::overlaps(problem, plan.offsets) == 0);
      CHECK(plan.peak >= load(problem));
      CHECK(plain::aligned(problem, plan.offsets));
    } catch (const UnsupportedError&) {  // too large for it
    }
  }
}

void check_verify(const Problem& problem) {
  std::vector<Bytes> offsets;
  for (Index i = 0; i < problem.count(); ++i) offsets.push_back(problem.alignment(i) * below(20));
  CHECK(verify(problem, offsets).size() == plain::overlaps(problem, offsets));
}

// Pairs that the problem keeps apart beyond lifetimes, and shapes, through every planner that takes them.
void check_features(const Problem& plain) {
  Problem problem = plain;
  if (below(2) && plain.count() > 1) {
    Conflicts conflicts(plain.count());
    for (int i = 0; i < plain.count(); ++i) {
      const Index a = below(plain.count()), b = below(plain.count());
      if (a != b) conflicts.add(a, b);
    }
    problem = problem.with_conflicts(std::move(conflicts));
  }
  std::vector<Part> parts;
  for (Index i = 0; i < plain.count(); ++i) {
    if (below(2)) continue;
    for (Bytes begin = 0; begin < plain.size(i);) {  // strips with lives of their own
      const Bytes end = begin + 1 + static_cast<Bytes>(generator() % static_cast<std::uint64_t>(plain.size(i) - begin));
      const Step life = plain.last(i) - plain.first(i);
      const Step first = plain.first(i) + below(static_cast<int>(life));
      parts.push_back({i, begin, end, first, first + 1 + below(static_cast<int>(plain.last(i) - first))});
      begin = end;
    }
  }
  problem = problem.with_shapes(std::move(parts));
  CHECK(load(problem) <= load(plain));
  for (const PlannerInfo& planner : planners()) {
    if (features_of(problem) & ~planner.supports & ~kShapes) continue;
    try {
      const Plan plan = solve(problem, briefly(planner));
      CHECK(plain::faults(problem, plan.offsets) == 0);
      CHECK(plan.peak >= plan.lower_bound);
    } catch (const UnsupportedError&) {  // too large for it
    }
  }
}

GraphSpec spec_of(const Graph& graph) {
  GraphSpec spec;
  spec.tensors = graph.tensors();
  const auto name = [&](Index t) { return graph.tensor(t).name; };
  const auto views = [&](const std::vector<View>& from, std::vector<BasicView<std::string>>& to) {
    for (const View& view : from) to.push_back({name(view.output), name(view.input), view.offset});
  };
  for (const Op& op : graph.ops()) {
    OpSpec copy;
    copy.name = op.name;
    copy.type = op.type;
    for (Index t : op.inputs) copy.inputs.push_back(name(t));
    for (Index t : op.outputs) copy.outputs.push_back(name(t));
    copy.workspace = op.workspace;
    views(op.aliases, copy.aliases);
    views(op.inplace, copy.inplace);
    views(op.overwrites, copy.overwrites);
    views(op.slices, copy.slices);
    views(op.concats, copy.concats);
    copy.stream = op.stream;
    for (Index k : op.after) copy.after.push_back(graph.op(k).name);
    spec.ops.push_back(std::move(copy));
  }
  for (Index t : graph.outputs()) spec.outputs.push_back(name(t));
  return spec;
}

// With the edges that the plan asks for, every op may have a stream of its own: no order that is then legal loses
// anything. None of the edges follows from the others.
void check_reuse_edges(const Graph& graph, const GraphPlan& result) {
  const Addresses addresses = addresses_of(result.buffers, result.plan.offsets);
  const std::vector<ReuseEdge> edges = reuse_edges(graph, addresses);
  seen.edges += static_cast<int>(edges.size());
  GraphSpec spec = spec_of(graph);
  const auto waits = waits_of(graph);
  OpSets implied(graph.op_count());
  for (Index k = 0; k < graph.op_count(); ++k) {
    OpSpec& op = spec.ops[at(k)];
    op.stream = static_cast<int>(k);
    for (Index before : waits[at(k)]) {
      op.after.push_back(graph.op(before).name);
      implied.add_with_row(k, before);
    }
    for (auto edge = edges.rbegin(); edge != edges.rend(); ++edge) {
      if (edge->after != k) continue;
      CHECK(!implied.contains(k, edge->before));
      implied.add_with_row(k, edge->before);
      op.after.push_back(graph.op(edge->before).name);
    }
  }
  const Graph loose(std::move(spec));
  ReplayOptions options{1, result.buffers.donated, {}};
  for (int i = 0; i < 4; ++i) {
    options.sequence = legal_sequence(loose, generator());
    CHECK(replay(loose, addresses, options).empty());
  }
}

// No choice of sharing needs less than the bound says, and no plan claims more than it, but where all were tried.
void check_bound(const Graph& graph, const StorageOptions& options, const GraphPlan& result, bool tries_all) {
  const HappensBefore order(graph);
  const std::vector<Shared> possible = possible_sharing(graph, order, options);
  const Bytes bound = sharing_bound(graph, order, options, possible);
  for (const auto& [inplace, zero_copy] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    StorageOptions other = options;
    other.inplace = other.inplace && inplace;
    other.zero_copy = other.zero_copy && zero_copy;
    CHECK(bound <= aligned_load(buffers_of(graph, other).problem));
  }
  CHECK(result.plan.lower_bound == bound || possible.empty() || (tries_all && result.plan.lower_bound > bound));
  for (const Shared& shared : result.buffers.shared)
    CHECK(std::any_of(possible.begin(), possible.end(), [&](const Shared& may) {
      return may.how == shared.how && may.op == shared.op && may.view == shared.view;
    }));
}

// A random graph through a random planner, which verifies and replays, or throws. In every order in which its ops may
// run nothing may be lost; and what may share bytes never makes the load higher.
void check_graph() {
  const Graph graph(RandomGraph(generator).spec());
  StorageOptions options;
  const bool usual = below(4) > 0;  // what ops make is placed, and perhaps what is given; else any kinds
  if (!usual) options.place = Place(std::initializer_list<TensorKind>{});
  for (int kind = 0; kind < kTensorKinds; ++kind)
    if (below(2)) options.place.add(static_cast<TensorKind>(kind));
  options.alignment = below(3) ? 1 : 1 + below(16);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::input && below(2)) options.donate.push_back(tensor.name);
  if (below(8) == 0) options.disable_inplace_ops = {"even"};

  const auto table = planners();
  const PlannerInfo& planner = table[at(below(static_cast<int>(table.size())))];
  try {
    const GraphPlan result = solve(graph, briefly(planner), options);
    CHECK(verify(result.buffers.problem, result.plan.offsets, result.plan.peak).empty());
    ReplayOptions replay_options{1, result.buffers.donated, {}};
    const Addresses addresses = addresses_of(result.buffers, result.plan.offsets);
    for (int i = 0; i < 4; ++i) {
      replay_options.sequence = legal_sequence(graph, generator());
      CHECK(replay(graph, addresses, replay_options).empty());
    }
    StorageOptions none = options;
    none.inplace = none.zero_copy = false;
    const Problem copied = buffers_of(graph, none).problem;
    const bool chooses = planner.name == "auto";  // what shares bytes, for the whole graph; the others op by op
    if (usual && !chooses) CHECK(load(result.buffers.problem) <= load(copied));
    if (!chooses) CHECK(load(result.buffers.problem.without_shapes()) <= load(copied.without_shapes()));
    check_bound(graph, options, result, chooses);
    check_reuse_edges(graph, result);
    seen.count(result.buffers);
  } catch (const UnsupportedError&) {  // streams are not for every planner
    ++seen.refused;
  } catch (const GraphError& error) {  // an overwrite that races with another stream
    CHECK(std::string(error.what()).find("which of them runs first") != std::string::npos);
    ++seen.refused;
  } catch (const std::exception& error) {  // a plan that its own check refuses, among others
    check::report(false, "a graph is planned or refused", __FILE__, __LINE__, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 250;
  const bool graphs_only = argc > 2 && std::string(argv[2]) == "graphs";
  if (argc > 3) generator.seed(static_cast<std::uint64_t>(std::atoll(argv[3])));
  int round = 0;
  for (; round < rounds && check::failures == 0; ++round) {
    if (!graphs_only) {
      const Problem problem = random_problem();
      check_planners(problem);
      check_verify(problem);
      check_features(problem);
    }
    check_graph();
  }
  seen.print(round);
  return check::finish();
}
