// A schedule that is kept up to date as units are added and taken away, against a walk through all of its steps; and
// what annealing makes of a dear one, and bounds, against the cheapest of all.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "fit/anneal.hpp"
#include "fit/exact.hpp"
#include "fit/fitter.hpp"
#include "fit/live_schedule.hpp"
#include "fit/moments.hpp"
#include "fit/prices.hpp"
#include "memplan/bounds.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/solve_fit.hpp"
#include "random_graph.hpp"

using namespace memplan;

namespace {

double over_of(const Walk& walk, Bytes capacity, const std::vector<double>& prices) {
  std::vector<Bytes> most(prices.size(), 0);
  for (std::size_t s = 0; s < walk.size(); ++s) {
    Bytes& of_stage = most[at(walk.steps[s].stage)];
    of_stage = std::max(of_stage, walk.need[s]);
  }
  double over = 0;
  for (std::size_t k = 0; k < most.size(); ++k)
    over += prices[k] * static_cast<double>(std::max<Bytes>(most[k] - capacity, 0));
  return over;
}

std::vector<Rerun> possible(const FitModel& model) {
  std::vector<Rerun> all;
  for (Index u = 0; u < static_cast<Index>(model.units.size()); ++u)
    for (Index k = 0; k < model.op_count(); ++k)
      if (model.may_run_again(u, k)) all.push_back({k, u});
  return all;
}

void check_toggles(const FitModel& model, Bytes capacity, std::mt19937_64& generator) {
  const std::vector<Rerun> all = possible(model);
  LiveSchedule live(model, capacity);
  Walk walk(model);
  std::vector<double> prices(at(model.op_count()), 1);
  for (int toggles = 0; toggles < 40 && !all.empty(); ++toggles) {
    live.toggle(all[generator() % all.size()]);
    if (toggles == 20) {
      for (double& price : prices) price = static_cast<double>(generator() % 4);
      live.set_prices(prices);
    }
    walk.run(live.schedule());
    CHECK(live.fits() == (walk.load() <= capacity));
    CHECK(live.over() == over_of(walk, capacity, prices));
  }
}

// From a schedule that makes everything again wherever it may be, to the cheapest of all within its load.
void check_anneal(const FitModel& model, Chance& chance, int& tried, int& best) {
  Schedule start(model);
  for (const Rerun& rerun : possible(model)) start.add(rerun);
  Walk walk(model);
  walk.run(start);
  const Bytes capacity = walk.load();
  const std::optional<Exact> optimum = exact(model, capacity, 100'000);
  if (!optimum || start.cost() == 0) return;
  std::int64_t work = 300'000;
  const Deadline deadline;
  Anneal anneal(model, capacity, start, {}, deadline, chance);
  CHECK(anneal.run(0, work));
  walk.run(anneal.best());
  CHECK(walk.load() <= capacity);
  CHECK(anneal.best().cost() >= optimum->cost - 1e-9);
  ++tried;
  best += anneal.best().cost() <= optimum->cost + 1e-9 ? 1 : 0;
}

// At several capacities; true if one costs something.
bool check_bounds(const FitModel& model, Bytes load) {
  const Deadline deadline;
  bool positive = false;
  for (const Bytes capacity : {load * 9 / 10, load * 7 / 10, load / 2}) {
    const std::optional<Exact> optimum = exact(model, capacity, 20'000);
    if (!optimum || !optimum->feasible) continue;
    const Cover cover(model, capacity);
    CHECK(cover.floor().bytes <= capacity);
    CHECK(prices_of(model, cover, 3 * optimum->cost + 1, 300, deadline).bound <= optimum->cost + 1e-9);
    CHECK(moments_bound(model, cover, deadline) <= optimum->cost + 1e-9);
    positive = positive || optimum->cost > 0;
  }
  return positive;
}

// What the types of ops say.
void test_facts() {
  GraphSpec spec{{{"x", 8, TensorKind::input}}, {}, {}, {}};
  const auto add = [&](const char* type, bool has_view) {
    const std::string name = std::string(type) + (has_view ? " view" : "");
    OpSpec op{name, type, {"x"}, {"of " + name}};
    if (has_view) op.aliases = {{"of " + name, "x", 0}};
    spec.tensors.push_back({"of " + name, 8});
    spec.ops.push_back(op);
  };
  const std::vector<const char*> never{"aten.bernoulli_.float", "aten.rand.default", "Dropout", "ns::aten.rrelu"};
  const std::vector<const char*> same{"aten.native_batch_norm.default", "rand", "a.__iadd__", "torch.view"};
  for (const char* type : never) add(type, false);
  for (const char* type : same) add(type, false);
  add("aten.relu_.default", false);
  add("torch.view", true);
  spec.ops[4].flops = 100;
  spec.ops[5].cost = 7;
  const Graph graph(std::move(spec));
  const std::vector<Again> again = again_of(graph);
  for (std::size_t k = 0; k < 4; ++k) CHECK(again[k] == Again::never);
  for (std::size_t k = 4; k < 8; ++k) CHECK(again[k] == Again::same);
  CHECK(again[8] == Again::changes && again[9] == Again::changes);
  const std::vector<double> costs = costs_of(graph);
  CHECK(costs[3] == 16 && costs[4] == 116 && costs[5] == 7 && costs[9] == 0);
  CHECK(costs_of(graph, CountedBy::bytes)[4] == 16 && costs_of(graph, CountedBy::flops)[5] == 16);
}

// A plan within the capacity, whose changes cost what it says; and as little as is reached.
void check_plans(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts, int& fitted) {
  const StorageOptions storage;
  const Bytes given = solve(*graph, "auto", storage).plan.peak;
  FitOptions options;
  options.work = 1'000'000;
  options.capacity = given * 7 / 10;
  try {
    const FittedPlan found = solve_fit(graph, facts, storage, options, true);
    CHECK(found.found.plan.peak <= options.capacity);
    CHECK(replay_all(*found.graph, found.found.buffers, found.found.plan.offsets).empty());
    double sum = 0;
    for (const Change& change : found.changes) sum += change.cost;
    CHECK(sum == found.added_cost && found.cost_bound <= sum);
    ++fitted;
  } catch (const InfeasibleError& error) {
    CHECK(!error.plan || error.graph);
  } catch (const UnsupportedError&) {
    return;
  }
  const FittedPlan least = solve_fit_least(graph, facts, storage, options);
  CHECK(least.load_bound <= least.found.plan.peak);
  CHECK(replay_all(*least.graph, least.found.buffers, least.found.plan.offsets).empty());
  options.stop = [] { return true; };
  CHECK(solve_fit_least(graph, facts, storage, options, true).found.plan.interrupted);
}

// A search for what to give up that took all the time would leave a planner that only begins.
void test_the_plan_gets_part_of_the_time() {
  GraphSpec spec{{{"in", 8, TensorKind::input}}, {}, {}, {}};
  for (int k = 0; k < 80; ++k) {
    const std::string name = std::to_string(k);
    spec.tensors.push_back({"t" + name, 100 + k * 37 % 64});
    spec.ops.push_back({"f" + name, "F", {k == 0 ? "in" : "t" + std::to_string(k - 1)}, {"t" + name}});
    if (k >= 40) spec.ops.back().inputs.push_back("t" + std::to_string(79 - k));
    spec.ops.back().cost = 1 + k * 13 % 7;
  }
  spec.outputs = {"t79"};
  const auto graph = std::make_shared<const Graph>(std::move(spec));
  FitOptions options;
  options.capacity = load(buffers_of(*graph).problem) / 2;
  options.work = 1'000'000'000'000;
  options.time_limit = 3;  // on a machine with other work, what ends late takes half a second
  PlannerInfo row = choose_planner("greedy_by_size").planner;
  double left = 0;
  row.run = [run = row.run, &left](const Problem& problem, const PlanOptions& asked) {
    left = asked.time_limit.value_or(0);
    return run(problem, asked);
  };
  try {
    solve_fit(graph, facts_of(*graph), {}, options, false, choose_planner(row, "greedy_by_size"));
  } catch (const InfeasibleError&) {
  }
  CHECK(left > 0.05);
}

// A limit that counts from an hour ago leaves no part more than the least.
void test_the_limit_counts_from_the_start() {
  const auto graph = std::make_shared<const Graph>(
      GraphSpec{{{"in", 8, TensorKind::input}, {"t", 8}}, {{"f", "F", {"in"}, {"t"}}}, {"t"}, {}});
  FitOptions options;
  options.capacity = 8;
  options.time_limit = 3600;
  options.start = std::chrono::steady_clock::now() - std::chrono::hours(1);
  PlannerInfo row = choose_planner("greedy_by_size").planner;
  double most = 0;
  row.run = [run = row.run, &most](const Problem& problem, const PlanOptions& asked) {
    most = std::max(most, asked.time_limit.value_or(3600));
    return run(problem, asked);
  };
  solve_fit_least(graph, facts_of(*graph), {}, options, true, choose_planner(row, "greedy_by_size"));
  CHECK(0 < most && most < 1);
}

// A small graph is not searched for minutes, unless it is said how long.
void test_a_time_limit_lifts_the_limit_of_work() {
  const Graph graph{{{{"in", 8, TensorKind::input}, {"t", 8}}, {{"f", "F", {"in"}, {"t"}}}, {"t"}, {}}};
  FitOptions options;
  CHECK(work_for(graph, options) < options.work);
  options.time_limit = 600;
  CHECK(work_for(graph, options) == options.work);
}

}  // namespace

int main() {
  test_facts();
  test_a_time_limit_lifts_the_limit_of_work();
  test_the_plan_gets_part_of_the_time();
  test_the_limit_counts_from_the_start();
  std::mt19937_64 generator(1);
  Chance chance(1);
  int tried = 0, best = 0, bounded = 0, fitted = 0;
  for (int round = 0; round < 300; ++round) {
    const GraphSpec made = RandomGraph::tiny(generator).spec();
    const Graph graph(made);
    if (graph.op_count() == 0) continue;
    std::vector<OpFacts> facts(graph.ops().size());
    for (OpFacts& fact : facts) fact.cost = static_cast<double>(generator() % 5);
    const StorageOptions storage;
    Ways ways;
    if (generator() % 2 == 0) ways.transfer = 0.5;
    if (round % 10 == 0) check_plans(std::make_shared<const Graph>(made), facts, fitted);
    const FitModel model(graph, facts, storage, ways);
    Walk walk(model);
    walk.run(Schedule(model));
    check_toggles(model, walk.load() * static_cast<Bytes>(generator() % 4 + 6) / 10, generator);
    check_anneal(model, chance, tried, best);
    ways.parts = true;
    ways.recompute = !ways.transfer || generator() % 2 == 0;
    bounded += check_bounds(FitModel(graph, facts, storage, ways), walk.load()) ? 1 : 0;
  }
  CHECK(tried > 100);
  CHECK(bounded > 30);
  CHECK(fitted > 3);
  CHECK(best * 100 >= tried * 95);
  std::printf("%d of %d are the cheapest\n", best, tried);
  return check::finish();
}
