// Plans of pools: which buffer lies in which pool, and a plan per pool.
//
//     Problem ─▶ which pool ─▶ a problem per pool ─▶ planner ─▶ a plan per pool
//                    ▲                                  │
//                    └───── what does not fit ──────────┘
//
// Buffers may fit by their load, but not by their places. So pools are chosen together with places: a planner places
// the chosen buffers, and those that it cannot place are chosen again (assignment.hpp).
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

// Chooses pools and places. Throws ProblemError for an impossible request, InfeasibleError if no plan fits or none was
// found, and the errors of solve().
PlansOfPools plans_of_pools(const PoolsRequest& request, const ChosenPlanner& planner, const PlanOptions& options);

}  // namespace memplan
