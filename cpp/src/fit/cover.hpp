// Cover: a relaxation of the problem. At each op of the given order, what is away has to free what is too much.
//
//     minimise    sum of cost(u) times the reruns of u
//     such that   at each op k:  bytes of the items that are away at k  >=  need(k) - capacity
//
// An item may be away between two uses that follow each other in the given order, if its unit runs again at a stage
// between them, or it is fetched there. All that a unit reads is taken to be there when it runs again, and what it
// needs then is not counted. So no schedule adds less than the optimum.
#pragma once

#include <vector>

#include "fit/fit_model.hpp"

namespace memplan {

// An item that may be away while the ops [first, last) run, if its unit runs again at a stage of [begin, end].
struct Gap {
  Index item = 0;
  Index unit = kNone;   // whose ops make it again
  Index fetch = kNone;  // the unit that fetches it
  Bytes bytes = 0;
  Index first = 0;
  Index last = 0;
  Index begin = 0;
  Index end = 0;
  Bytes written_over = 0;  // what else is freed at op first - 1, which may write over the item
};

// The bytes that any schedule needs while an op runs: of what it reads and writes, of its workspace, and of what cannot
// come back and is used later.
struct Floor {
  Bytes bytes = 0;
  Index op = kNone;
};

class Cover {
 public:
  Cover(const FitModel& model, Bytes capacity);

  // At least the bytes that an op needs, and the op that needs most so.
  Floor floor() const;

  std::vector<Gap> gaps;        // those of the items that an op makes follow each other, and so do those of an item
  std::vector<Bytes> too_much;  // per op: need - capacity, however low

 private:
  Bytes capacity_;
};

}  // namespace memplan
