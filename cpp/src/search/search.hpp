// Search: what all searches have in common. They answer one of two questions:
//
//     does a plan fit?    Decision: valley, stacks and pairs. A run has a capacity, and ends with a plan, with the proof
//                         that there is none, or undecided at one of its limits
//     a better plan?      Search: goes on for some work from the best plan so far; it may prove a bound meanwhile
//
// Both count their work, so results are the same on every machine. If the deadline passes, they throw
// (base/deadline.hpp); what they have found before counts.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/units.hpp"

namespace memplan {

inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

// Where that much more work ends, counted as `done` is; kEndless stays endless.
inline std::int64_t end_of_work(std::int64_t done, std::int64_t more) {
  return more > kEndless - done ? kEndless : done + more;
}

// What a run within a capacity ends with.
enum class Decision { found, infeasible, undecided };

struct RunLimits {
  std::int64_t steps;  // of this run: nodes, or exchanges of stacks
  std::int64_t work;   // of all runs of the search
  const Deadline& deadline;
};

// The best plan so far.
struct Incumbent {
  std::span<const Bytes> offsets;
  Bytes peak;
};

class Search {
 public:
  virtual ~Search() = default;
  // Goes on for about that much work, or until a plan peaks at most at `enough`; true if it has one that peaks below
  // the best so far, from which it learns. Where the deadline throws, it has found none.
  virtual bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) = 0;
  // Nothing that peaks lower is to be expected from it.
  virtual bool is_done(Bytes peak) const { return lower_bound() >= peak; }
  // Per buffer: the plan found last.
  virtual std::vector<Bytes> offsets() const = 0;
  // Proven; 0: nothing is.
  virtual Bytes lower_bound() const { return 0; }
  // Done so far.
  virtual std::int64_t work() const = 0;
};

}  // namespace memplan
