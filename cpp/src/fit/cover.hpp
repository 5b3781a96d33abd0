// Cover: a simpler problem than that of fit, whose optimum no schedule can beat.
//
//     minimise    sum of cost(u) times the reruns of u
//     such that   at each op k:  bytes of the items that are away at k  >=  need(k) - capacity
//
// An item may be away between two uses that follow each other in the given order. Its unit then runs again, or fetches
// it, at a stage between them. It is simpler because a rerun finds all its inputs, and needs no bytes itself.
#pragma once

#include <vector>

#include "fit/fit_model.hpp"

namespace memplan {

// An item that may be away while the ops [first, last) run, if its unit runs again at a stage of [begin, end].
struct Pause {
  Index item = 0;
  Index unit = kNone;   // the unit whose ops make it again
  Index fetch = kNone;  // the unit that fetches it
  Bytes bytes = 0;
  Index first = 0;
  Index last = 0;
  Index begin = 0;
  Index end = 0;
  Bytes written_over = 0;  // saved at op first - 1, too, if its outputs are written over the item
};

// The bytes that any schedule needs while an op runs: the items that it reads and writes, its workspace, and items that
// are used later and cannot come back.
struct Floor {
  Bytes bytes = 0;
  Index op = kNone;
};

class Cover {
 public:
  Cover(const FitModel& model, Bytes capacity);

  // The largest such floor, and its op.
  Floor floor() const;

  std::vector<Pause> pauses;    // by the op that makes the item, then by item
  std::vector<Bytes> too_much;  // per op: need - capacity; negative if it fits

 private:
  Bytes capacity_;
};

}  // namespace memplan
