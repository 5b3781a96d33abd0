// Shared objects: blocks of memory that hold one buffer at a time. Their sizes and places are found last: an object is
// as large as the largest buffer that it ever holds, and the objects lie end to end.
//
//   offset ▲ ┌────┐┌───────┐
//          │ │  2 ││   4   │  object 1
//          │ ├────┴┴─┬─────┴─┐
//          │ │   0   │   3   │  object 0
//          └─┴───────┴───────┴──▶ step
#pragma once

#include <cstddef>
#include <vector>

#include "memplan/plan.hpp"
#include "problem/orders.hpp"

namespace memplan {

class SharedObjects {
 public:
  explicit SharedObjects(const Problem& problem) : problem_(problem) {}

  Index count() const { return static_cast<Index>(members_.size()); }

  // A new object, which holds nothing yet.
  Index open() {
    members_.emplace_back();
    return count() - 1;
  }

  // From now on, the object holds this buffer too, which has bytes.
  void put(Index object, Index buffer) { members_[at(object)].push_back(buffer); }

  // Whether the buffer conflicts, beyond lifetimes, with nothing that the object has held.
  bool may_hold(Index object, Index buffer) const;

  // Puts each buffer where its object begins: at a multiple of the largest alignment in the object. A buffer whose own
  // alignment does not divide that begins a little further in.
  Placement end_to_end() const;

 private:
  const Problem& problem_;
  std::vector<std::vector<Index>> members_;  // per object
};

// Runs through the lives of buffers with bytes. `births` ascend in birth. Before each born(buffer), dead(buffer) is
// called for the buffers that have died by then, by death and index.
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
