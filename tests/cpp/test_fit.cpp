// A schedule that is kept up to date as units are added and taken away, against a walk through all of its steps; and
// what annealing makes of a dear one, and bounds, against the cheapest of all.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <vector>

#include "check.hpp"
#include "fit/anneal.hpp"
#include "fit/exact.hpp"
#include "fit/live_schedule.hpp"
#include "fit/moments.hpp"
#include "fit/prices.hpp"
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

}  // namespace

int main() {
  std::mt19937_64 generator(1);
  Chance chance(1);
  int tried = 0, best = 0, bounded = 0;
  for (int round = 0; round < 300; ++round) {
    const Graph graph(RandomGraph::tiny(generator).spec());
    if (graph.op_count() == 0) continue;
    std::vector<OpFacts> facts(graph.ops().size());
    for (OpFacts& fact : facts) fact.cost = static_cast<double>(generator() % 5);
    const StorageOptions storage;
    Ways ways;
    if (generator() % 2 == 0) ways.transfer = 0.5;
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
  CHECK(best * 100 >= tried * 95);
  std::printf("%d of %d are the cheapest\n", best, tried);
  return check::finish();
}
