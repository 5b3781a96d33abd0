// Lifetimes over a partial order: for ops on several cores, streams or queues, which wait for one another now and then.
//
//     core 0   0 ───▶ 2 ───▶ 4         An event is a step at which buffers begin or end. 1 happens before 4:
//                         ▲            core 0 waits for it. 1 and 2 are in no order.
//     core 1   1 ─────────┴─▶ 5
//
// A buffer lives from its first event to its last. Another buffer may take its bytes if it begins at this last event,
// or at an event after it. All other pairs conflict. If one event happens before another, it has the lower number. So
// buffers whose lifetimes intersect by number conflict, and all other pairs of these are conflicts beyond lifetimes.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// The problem with more conflicts: steps are events, and one event happens before another only if `pairs` (earlier,
// later) say so, or if that follows from them. Throws ProblemError for a pair whose earlier step is not the lower one,
// and InterruptedError if `stop` of the limits ends it. For events in c chains: O((pairs + buffers) c log buffers), and
// the conflicts; memory for c numbers per event at most, and the conflicts.
Problem with_happens_before(const Problem& problem, const std::vector<std::pair<Step, Step>>& pairs,
                            const Limits& limits = {});

// Per buffer the vector clocks of its first and of its last event, of `clocks` numbers each: an event happens before
// another if none of its numbers is above the other's, and they are not the same. Steps are ranks of the clocks in an
// order that keeps this.
struct ClockedLives {
  std::vector<Step> first, last;
  Conflicts conflicts;  // beyond lifetimes by these ranks
};

// Throws ProblemError, naming the buffer, if its first event does not happen before its last, and InterruptedError if
// `stop` of the limits ends it. For first events in c chains: O(buffers c clocks log buffers), and the conflicts.
ClockedLives lives_of_clocks(std::span<const std::int64_t> first, std::span<const std::int64_t> last,
                             std::size_t clocks, const Limits& limits = {});

}  // namespace memplan
