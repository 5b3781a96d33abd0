// Placed: where a buffer may go among the buffers placed so far, for all features of problems.
//
//     offset ▲ ┌───┐     ┌──┐        the runs of offsets at which the next buffer collides with nothing:
//            │ └───┘ ┌──┐└──┘        between what is placed in its life, and above all of it
//            │ ┌──┐  └──┘
//            └─┴──┴─────────▶ step
//
// A shape collides part by part, a conflict with all bytes. To add or to ask takes O((1 + r) log n) for each part, for
// r separate byte ranges in use at a time. With conflicts, to ask takes O(n / 64 + conflicts) more.
#pragma once

#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/occupancy.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// The offsets lowest to highest, both included.
struct OffsetRange {
  Bytes lowest = 0;
  Bytes highest = 0;
};

class Placed {
 public:
  // At first, with pins and reserved bytes. Asking for room ticks the deadline. Problem and deadline outlive it.
  Placed(const Problem& problem, const Deadline& deadline);

  // Buffer i is at that offset from now on.
  void add(Index i, Bytes offset);

  // Where buffer i, which has bytes, may begin: at least one run, ascending; the last reaches up without end.
  // Valid until the next call. Alignment is not considered.
  std::span<const OffsetRange> room(Index i);

 private:
  struct Blocked {  // the offsets between these two, both excluded
    Bytes after;
    Bytes before;
  };

  std::span<const Blocked> blocked_by_others(Index i);

  const Problem& problem_;
  const Deadline& deadline_;
  Occupancy occupancy_;
  std::vector<Bytes> offset_;  // per buffer, kNowhere until it is placed; used for conflicts only
  std::vector<Blocked> blocked_;
  std::vector<OffsetRange> room_;
};

// The lowest aligned offset in the room.
Bytes lowest_fit(std::span<const OffsetRange> room, Bytes alignment);

// The lowest aligned offset in the narrowest run that has one; in the last, endless run only if no other run has such
// an offset.
Bytes tightest_fit(std::span<const OffsetRange> room, Bytes alignment);

}  // namespace memplan
