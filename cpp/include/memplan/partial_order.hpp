// Lifetimes over a partial order: for ops on several cores, streams or queues that sometimes wait for one another.
//
//     core 0   0 ───▶ 2 ───▶ 4         An event is a step at which buffers begin or end. 1 happens before 4:
//                         ▲            core 0 waits for it. 1 and 2 are in no order.
//     core 1   1 ─────────┴─▶ 5
//
// A buffer lives from its first event to its last. Buffer b may take the bytes of buffer a if b begins at the last
// event of a, or at an event that a's last event happens before. All other pairs conflict. If one event happens before
// another, it has the lower number. So if two lifetimes intersect by number, the buffers conflict. All other
// conflicting pairs are conflicts beyond lifetimes.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Adds conflicts to a problem whose steps are events. One event happens before another only if this follows from
// `pairs` (earlier, later). Throws ProblemError if the earlier step of a pair is not lower, and InterruptedError if
// `stop` ends the call. If the events form c chains, time is O((pairs + buffers) c log buffers + conflicts). Memory is
// at most c numbers per event, and the conflicts.
Problem with_happens_before(const Problem& problem, const std::vector<std::pair<Step, Step>>& pairs,
                            const Limits& limits = {});

// Lifetimes from vector clocks. One event happens before another if its clock is not equal to the other clock, and none
// of its numbers is above the other's. Steps are ranks of the clocks in an order that agrees with happens-before.
struct ClockedLives {
  std::vector<Step> first, last;
  Conflicts conflicts;  // beyond the lifetimes [first, last)
};

// `first` and `last` have `clocks` numbers per buffer: the vector clocks of its first and its last event. Throws
// ProblemError, naming the buffer, if its first event does not happen before its last. Throws InterruptedError if
// `stop` ends the call. If the first events form c chains: O(buffers c clocks log buffers + conflicts).
ClockedLives lives_of_clocks(std::span<const std::int64_t> first, std::span<const std::int64_t> last,
                             std::size_t clocks, const Limits& limits = {});

}  // namespace memplan
