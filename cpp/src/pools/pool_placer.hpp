// Pool placer: whether a planner can place some groups in a pool, and where; or the proof that no planner can.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "pools/pool_problems.hpp"

namespace memplan {

struct PoolAnswer {
  Bytes peak = 0;
  Bytes bound = 0;             // proven: no placement of these groups peaks lower
  Bytes asked = 0;             // the peak at which the search was to end
  std::vector<Bytes> offsets;  // per group, in their order
};

class PoolPlacer {
 public:
  // All outlive it. `effort` is the work that a search may do, unless the chosen planner sets another.
  PoolPlacer(const PoolProblems& problems, const ChosenPlanner& planner, const PlanOptions& options,
             std::int64_t effort, const Deadline& deadline);

  // Places groups, ascending, in a pool; a search ends when their peak is `enough` or less. If the groups are few, the
  // answer is remembered.
  const PoolAnswer& place(const std::vector<Index>& members, std::size_t pool, Bytes enough);

  std::int64_t work() const { return work_; }

 private:
  PoolAnswer placed(const std::vector<Index>& members, std::size_t pool, Bytes enough);

  const PoolProblems& problems_;
  const ChosenPlanner& planner_;
  const PlanOptions& options_;
  const std::int64_t effort_;
  const Deadline& deadline_;
  std::int64_t work_ = 0;
  std::map<std::pair<std::size_t, std::vector<Index>>, PoolAnswer> known_;
};

}  // namespace memplan
