// ge_pool: takes buffers by birth. Each takes the oldest pool that is large enough and free. If there is none, it gets
// a new pool of its size. A pool never grows.
//
//   sizes 10, 15, 10, one after another:    ┌────┐          the third fits the first pool; the second, larger
//                                           │ 15 │          than it, has opened another: 25 in all
//                                      ┌────┼────┼────┐
//                                      │ 10 │    │ 10 │
//                                      └────┴────┴────┘
//
// The document's lifetimes include their ends, and it asks for free_after_step <= start. So a buffer may take the pool
// of another that is still read in the step that writes it. Here lifetimes are half-open: a pool is free at a birth if
// its buffers have died by then, and none of them conflicts with the new buffer otherwise.
//
// Complexity: O(n log n); extra conflicts add the pools passed over times their members.
// Guarantee: none. There are as many pools as buffers in the largest clique if all sizes are equal, and more if they
// ascend.
// Source: GE memory reuse, 4.2, allocate_memory_pools.
#include "base/max_tree.hpp"
#include "placing/shared_objects.hpp"
#include "planners/planners.hpp"

namespace memplan {

Placement ge_pool(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  const std::vector<Index> births = by_birth(problem);
  SharedObjects objects(problem);
  std::vector<Index> pool_of(problem.size().size(), kNone);
  std::vector<Bytes> capacity;                         // per pool
  MaxTree free(std::vector<Bytes>(births.size(), 0));  // per pool that may come to be: its size while it is free

  const auto change = [&](Index pool, Bytes by) {
    const auto position = at(pool);
    free.add(position, position + 1, by);
  };
  const auto dead = [&](Index i) {
    const Index pool = pool_of[at(i)];
    change(pool, capacity[at(pool)]);
  };
  const auto born = [&](Index i) {
    std::size_t found = free.first_at_least(0, problem.size(i));
    while (found < free.size() && !objects.may_hold(static_cast<Index>(found), i))
      found = free.first_at_least(found + 1, problem.size(i));
    if (found < free.size()) {
      change(static_cast<Index>(found), -capacity[found]);
    } else {
      found = at(objects.open());
      capacity.push_back(problem.size(i));
    }
    pool_of[at(i)] = static_cast<Index>(found);
    objects.put(static_cast<Index>(found), i);
  };
  live_through(problem, births, deadline, dead, born);
  return objects.end_to_end();
}

}  // namespace memplan
