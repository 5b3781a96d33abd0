// Plans of pools: which buffer lies in which pool, and a plan per pool.
//
//     Problem ─▶ which pool ─▶ a problem per pool ─▶ planner ─▶ a plan per pool
//                    ▲                                  │
//                    └───── what does not fit ──────────┘
//
// Buffers that fit by their load need not have places that fit. So pools are chosen together with places: a planner
// places what was chosen, and what it cannot place is chosen again (assignment.hpp).
#pragma once

#include <vector>

#include "pools/request.hpp"

namespace memplan {

struct PlansOfPools {
  std::vector<Index> pool;  // per buffer
  std::vector<Plan> plans;  // per pool, of problem_in_pool(); verified, within the capacity
  std::int64_t cost = 0;
  std::int64_t cost_bound = 0;  // no plan costs less
  bool interrupted = false;
  double seconds = 0;
};

// The problem of some buffers of a request in a pool: in their order, with the pool's alignment, pins and reserved
// bytes. Each buffer has with it all buffers at fixed distances from it.
Problem problem_in_pool(const PoolsRequest& request, const std::vector<Index>& buffers, std::size_t pool);

// Chooses pools and places. Throws ProblemError for a request that cannot be, InfeasibleError if no plan fits or none
// was found, and what solve() throws.
PlansOfPools plans_of_pools(const PoolsRequest& request, const ChosenPlanner& planner, const PlanOptions& options);

}  // namespace memplan
