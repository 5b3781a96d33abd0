// Search: the interface of all searches. They answer one of two questions:
//
//     does a plan fit?    Decision: valley, stacks and pairs. A run has a capacity, and ends with a plan, with the proof
//                         that there is none, or undecided at one of its limits
//     a better plan?      Search: goes on for some work from the best plan so far; it may prove a bound meanwhile
//
// Both count their work, so results are the same on every machine. If the deadline passes, they throw
// (base/deadline.hpp); what earlier calls found still counts.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/units.hpp"

namespace memplan {

inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

// done + more, or kEndless if that overflows.
inline std::int64_t end_of_work(std::int64_t done, std::int64_t more) {
  return more > kEndless - done ? kEndless : done + more;
}

// The end of a run within a capacity.
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
  // Searches for about that much work, or until a plan peaks at `enough` or less. True if it found a plan that peaks
  // below best.peak. It may use `best`. If the deadline throws, nothing that this call found counts.
  virtual bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) = 0;
  // Whether it will find no plan that peaks lower.
  virtual bool is_done(Bytes peak) const { return lower_bound() >= peak; }
  // Per buffer: the plan found last.
  virtual std::vector<Bytes> offsets() const = 0;
  // Proven; 0 if nothing is proven.
  virtual Bytes lower_bound() const { return 0; }
  // The work done so far.
  virtual std::int64_t work() const = 0;
};

}  // namespace memplan
