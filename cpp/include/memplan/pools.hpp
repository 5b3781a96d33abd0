// Pools: several memories, such as SRAM and DRAM, and which buffer lies in which.
//
//     Problem ─▶ which pool ─▶ a problem per pool ─▶ planner ─▶ a plan per pool
//                    ▲                                  │
//                    └───── what does not fit ──────────┘
//
// A buffer lies in one of the pools that take it. The plan is of the least cost; among plans of equal cost, the pools
// without a capacity peak as low as can be. That buffers fit by their load does not imply that they can be placed. So
// pools are chosen together with places: a planner places what was chosen, and what it cannot place is chosen again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memplan/plan.hpp"
#include "memplan/planner.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"

namespace memplan {

struct Pool {
  std::string name;
  std::optional<Bytes> capacity = {};
  Bytes alignment = 1;                  // of all that lies in it, besides the buffers' own
  std::vector<Reserved> reserved = {};  // bytes of it that no buffer uses
};

// A buffer that lies in this pool, at this offset there.
struct PinInPool {
  Index buffer = kNone;
  std::size_t pool = 0;
  Bytes offset = 0;
};

inline constexpr std::int64_t kRefused = -1;  // the cost of a buffer in a pool that does not take it

struct PoolsRequest {
  Problem problem;  // without pins and reserved bytes, which are those of a pool
  std::vector<Pool> pools;
  std::vector<std::int64_t> cost;  // of buffer i in pool p, >= 0 or kRefused: cost[i * pools.size() + p]
  std::vector<PinInPool> pins = {};

  std::int64_t cost_of(Index buffer, std::size_t pool) const { return cost[at(buffer) * pools.size() + pool]; }
};

struct PlanInPools {
  std::vector<Index> pool;  // per buffer
  std::vector<Plan> plans;  // per pool, of problem_in_pool(); verified, within the capacity
  std::int64_t cost = 0;
  std::int64_t cost_bound = 0;  // no plan costs less
  bool interrupted = false;
  double seconds = 0;
};

// The problem of some buffers of a request in a pool: in their order, with the pool's alignment, pins and reserved
// bytes. Each lies there with all that it lies together with.
Problem problem_in_pool(const PoolsRequest& request, const std::vector<Index>& buffers, std::size_t pool);

// Chooses pools and places. The same for any number of threads, unless a time limit or `stop` cuts it short. Throws
// ProblemError for a request that cannot be, InfeasibleError where no plan fits or none was found, and what solve()
// throws.
PlanInPools solve_in_pools(const PoolsRequest& request, const ChosenPlanner& planner, const PlanOptions& options = {});

}  // namespace memplan
