// Plans in several pools: of a problem, of a graph, with what is pinned and reserved there; and each fault is found.
#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/pools.hpp"
#include "pools/sweep.hpp"

using namespace memplan;

namespace {

const std::vector<Pool> kPools{{.name = "sram", .capacity = 64}, {.name = "dram", .alignment = 8, .cost = 1}};

const Problem& three() {
  static const Problem problem({40, 40, 24}, {0, 1, 1}, {2, 3, 3}, {}, {"a", "b", "c"});
  return problem;
}

void test_problem() {
  const PlanInPools found = solve_in_pools(three(), kPools);
  CHECK(found.cost == 40 && found.cost_bound == 40);
  CHECK(found.pools[0].peak == 64 && found.pools[1].peak == 40 && found.pools[1].begin == 64);
  CHECK(found.plan.peak == 104 && found.pools[1].accessed == 40 && found.pools[0].buffers == 2);
  const std::vector<std::int64_t> often{5, 1, 1};
  const PlanInPools counted = solve_in_pools(three(), kPools, choose_planner("auto"), {}, {}, often);
  CHECK(counted.pool[0] == 0 && counted.accessed == std::vector<std::int64_t>({200, 40, 24}));
}

void test_fixed() {
  std::vector<Pool> pools = kPools;
  pools[0].accepts = {"b", "c"};
  pools[0].reserved = {{0, 8, 0, 2}};
  Layout fixed;
  fixed.pins = {{"a", 16}};  // only one pool takes it
  fixed.pool_pins = {{"c", "dram", 56}};
  const PlanInPools found = solve_in_pools(three(), pools, choose_planner("auto"), {}, fixed);
  const Bytes dram = found.pools[1].begin;
  CHECK(found.pool == std::vector<Index>({1, 0, 1}) && found.pins.size() == 2 && found.reserved.size() == 1);
  CHECK(found.plan.offsets[0] == dram + 16 && found.plan.offsets[2] == dram + 56 && found.plan.offsets[1] >= 8);
  CHECK(found.problem.pin(0) == dram + 16 && found.problem.reserved().size() == 1);
  fixed.pins = {{"b", 16}};
  THROWS(solve_in_pools(three(), pools, choose_planner("auto"), {}, fixed), ProblemError,
         "must say in which of the pools");
  fixed = {.pool_pins = {{"a", "sram", 8}}};
  THROWS(solve_in_pools(three(), pools, choose_planner("auto"), {}, fixed), ProblemError, "which does not take it");
  fixed = {.pool_pins = {{"a", "flash", 8}}};
  THROWS(solve_in_pools(three(), pools, choose_planner("auto"), {}, fixed), ProblemError, "none of 'sram', 'dram'");
  pools[1].capacity = 8;
  THROWS(solve_in_pools(three(), pools), InfeasibleError, "fits in none of the pools");
}

// x ─▶ relu ─▶ y, which may be in place; its workspace is in the pool that takes what relu makes.
void test_graph() {
  OpSpec relu{"relu", "Relu", {"x"}, {"y"}, 16};
  relu.inplace = {{"y", "x", 0}};
  GraphSpec spec{
      {{"in", 8, TensorKind::input}, {"x", 64}, {"y", 64}}, {{"make", "Make", {"in"}, {"x"}}, relu}, {"y"}, {}};
  spec.layout.pool_pins = {{"y", "dram", 128}};
  const auto graph = std::make_shared<const Graph>(std::move(spec));
  std::vector<Pool> pools = kPools;
  pools[0].accepts = {"Relu", "intermediate"};
  pools[0].capacity = 80;
  const GraphInPools apart = solve_in_pools(graph, pools);  // in one pool, x and y would cost more
  CHECK(apart.buffers.shared.empty() && apart.found.pool == std::vector<Index>({0, 1, 0}));
  CHECK(apart.found.cost == 64 && apart.found.plan.offsets[1] == apart.found.pools[1].begin + 128);
  pools[0].cost = 2;
  const GraphInPools shared = solve_in_pools(graph, pools, choose_planner("auto"), {}, {}, choose_order("best"));
  CHECK(shared.buffers.shared.size() == 1 && shared.found.cost == 3 * 64 + 2 * 16);
  THROWS(solve_in_pools(graph, pools, choose_planner("auto"), {}, {}, choose_order("given"), {{"z", 2}}), GraphError,
         "accesses must name tensors of the graph, got 'z'");
}

void test_faults() {
  const std::vector<Bytes> offsets{64, 0, 40};
  const std::vector<PoolRange> pools{{"sram", 64, 1, 0, 0, 64}, {"dram", {}, 8, 16, 64, 40}};
  const std::vector<Index> pool{1, 0, 0};
  const std::vector<char> takes{0, 1, 1, 0, 1, 0};
  CHECK(pool_faults(three(), offsets, pools, pool, takes).empty());
  const auto fault = [](const std::vector<PoolFault>& faults, const char* what) {
    return faults.size() == 1 && faults[0].message.find(what) != std::string::npos;
  };
  auto moved = offsets;
  moved[0] = 68;
  CHECK(pool_faults(three(), moved, pools, pool, takes).size() == 2);  // outside, and not aligned
  moved[0] = 56;
  CHECK(fault(pool_faults(three(), moved, pools, pool, takes), "is not inside of pool 'dram'"));
  CHECK(fault(pool_faults(three(), offsets, pools, std::vector<Index>{1, 0, 2}, takes),
              "lies in pool 2, and there are 2"));
  CHECK(fault(pool_faults(three(), offsets, pools, std::vector<Index>{1, 0, kNone}, takes), "lies in pool -1"));
  CHECK(fault(pool_faults(three(), offsets, pools, pool, std::vector<char>{0, 1, 0, 1, 1, 0}),
              "'b' lies in pool 'sram', which does not"));
  auto ranges = pools;
  ranges[0].capacity = 63;
  CHECK(fault(pool_faults(three(), offsets, ranges, pool, takes), "has 63 bytes, and needs 64"));
  ranges = pools;
  ranges[1].base = 12;
  CHECK(fault(pool_faults(three(), offsets, ranges, pool, takes), "at 12 in pool 'dram' is not aligned"));
  ranges = pools;
  ranges[1].begin = 56;
  ranges[1].peak = 48;
  CHECK(fault(pool_faults(three(), offsets, ranges, pool, takes), "begins at 56, where another pool ends at 64"));
  THROWS(pool_faults(three(), offsets, pools, std::vector<Index>{1, 0}), ProblemError, "pool must have 3 rows, got 2");
}

// Few choices are kept at a time: no assignment whose loads fit costs less than what was found and what was dropped.
void test_dropped() {
  std::mt19937_64 generator(3);
  const auto below = [&](std::size_t bound) { return static_cast<std::int64_t>(generator() % bound); };
  int dropped = 0;
  for (int round = 0; round < 200; ++round) {
    constexpr std::size_t kCount = 8, kPoolCount = 2;
    PoolsRequest request{.problem = Problem({}, {}, {}),
                         .pools = {{.name = "sram", .capacity = 12 + below(8)}, {.name = "dram"}},
                         .cost = {}};
    std::vector<Bytes> size;
    std::vector<Step> first, last;
    for (std::size_t i = 0; i < kCount; ++i) {
      size.push_back(1 + below(9));
      first.push_back(below(6));
      last.push_back(first.back() + 1 + below(4));
      request.cost.push_back(below(3));
      request.cost.push_back(below(20));
    }
    request.problem = Problem(size, first, last);
    const PoolProblems problems(request);
    const Demand demand(problems);
    const PoolPrices prices = pool_prices(problems, demand, 100, 30, {});
    const double endless = std::numeric_limits<double>::infinity();
    const Sweep found = sweep_pools(problems, demand, prices, 2, endless, {});
    const auto cost_of = [&](const auto& pool) {
      std::int64_t cost = 0;
      for (std::size_t i = 0; i < kCount; ++i) cost += problems.cost_of(static_cast<Index>(i), pool(i));
      return cost;
    };
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t in_dram = 0; in_dram < std::size_t{1} << kCount; ++in_dram) {
      bool fits = true;
      for (Step step = 0; step < 10; ++step) {
        Bytes load = 0;
        for (std::size_t i = 0; i < kCount; ++i)
          if ((in_dram >> i & 1) == 0 && first[i] <= step && step < last[i]) load += size[i];
        fits &= load <= *request.pools[0].capacity;
      }
      if (fits) least = std::min(least, cost_of([&](std::size_t i) { return (in_dram >> i & 1) % kPoolCount; }));
    }
    const bool lost = found.pool.empty() || cost_of([&](std::size_t i) { return at(found.pool[i]); }) > least;
    if (!lost) continue;
    CHECK(prices.bound + found.dropped - prices.rounding <= static_cast<double>(least));
    ++dropped;
  }
  CHECK(dropped > 10);
}

}  // namespace

int main() {
  test_problem();
  test_fixed();
  test_graph();
  test_faults();
  test_dropped();
  return check::finish();
}
