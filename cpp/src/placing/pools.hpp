// Pools: blocks of memory that hold one buffer at a time. Their sizes and places are found last: a pool is as large
// as the largest buffer it ever holds, and the pools lie end to end.
//
//   offset ▲ ┌────┐┌───────┐
//          │ │  2 ││   4   │  pool 1
//          │ ├────┴┴─┬─────┴─┐
//          │ │   0   │   3   │  pool 0
//          └─┴───────┴───────┴──▶ step
#pragma once

#include <cstddef>
#include <vector>

#include "memplan/plan.hpp"
#include "problem/orders.hpp"

namespace memplan {

class Pools {
 public:
  explicit Pools(const Problem& problem) : problem_(problem) {}

  Index count() const { return static_cast<Index>(members_.size()); }

  // A new pool, which holds nothing yet.
  Index open() {
    members_.emplace_back();
    return count() - 1;
  }

  // The pool holds this buffer too, which has bytes.
  void put(Index pool, Index buffer) { members_[at(pool)].push_back(buffer); }

  // Whether the buffer conflicts, beyond lifetimes, with nothing that the pool has held.
  bool may_hold(Index pool, Index buffer) const;

  // Each buffer where its pool begins, a multiple of the largest alignment in it; one whose own alignment that is
  // no multiple of begins a little further in.
  Placement end_to_end() const;

 private:
  const Problem& problem_;
  std::vector<std::vector<Index>> members_;  // per pool
};

// Runs through the lives of what has bytes, by `births`, which ascend in birth: before each born(buffer), dead(buffer)
// is called for what has died by then, by death and index.
template <class Dead, class Born>
void live_through(const Problem& problem, const std::vector<Index>& births, const Deadline& deadline, Dead&& dead,
                  Born&& born) {
  constexpr std::size_t kTicksPerBirth = 16;
  const std::vector<Index> deaths = by_death(problem);
  auto next = deaths.begin();
  for (Index i : births) {
    for (; next != deaths.end() && problem.last(*next) <= problem.first(i); ++next) dead(*next);
    born(i);
    deadline.tick(kTicksPerBirth);
  }
}

}  // namespace memplan
