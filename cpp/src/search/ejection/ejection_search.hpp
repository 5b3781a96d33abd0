// EjectionSearch: a plan below a target, for conflicts and shapes. A buffer that finds no place ejects buffers in its
// way.
//
//     target ▲╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌          4 waits for a place. It goes where the penalties of what it ejects are
//            │┌───────┐ ┌───┐          least: of 3 alone rather than of 0 and 1. Then 3 waits, and the penalty of
//            ││ 1     │ │ 3 │          4 is raised: it was hard to place, so it will not be ejected soon. When
//            │├──────┬┴─┴───┤          nothing waits any more, there is a plan, and the target is lowered.
//            ││ 0    │  2   │   + 4
//            └┴──────┴──────┴─▶
//
// Only offsets at which the buffer touches another one, and the two ends of the arena, have to be tried: in between,
// the sum of penalties is no lower. One sweep over the buffers in the way finds the least sum. Ties are broken by
// chance.
//
// One run takes waiting buffers by chance, the next takes the largest first, and so on. Penalties begin at 1 in each
// run. A run that moves many buffers in vain is given up. Then the target is set higher, and the next run may be
// longer.
//
// Complexity: O(n) for a buffer moved, with shapes O(k log k) for k ranges that are in the way. Guarantee: none.
// Source: guided ejection search, Nagata and Braysy 2009; there of vehicles' tours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/chance.hpp"
#include "search/ejection/obstacles.hpp"
#include "search/search.hpp"

namespace memplan {

class EjectionSearch : public Search {
 public:
  // `problem` outlives it.
  EjectionSearch(const Problem& problem, std::uint64_t seed, const Deadline& deadline);

  bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override;

  std::vector<Bytes> offsets() const override { return best_; }
  std::int64_t work() const override { return work_; }

 private:
  struct Place {
    Bytes offset = kNowhere;
    std::int64_t penalty = 0;  // of the ejected buffers
  };

  void begin(Bytes enough);
  void move();
  void give_up();
  void keep(const Deadline& deadline);
  void push_down(const Deadline& deadline);
  Index take_from_pool();
  Place cheapest(Index i);
  void eject_from(Bytes offset);  // the buffers in the way there, of the buffer looked at last

  const Problem& problem_;
  Obstacles placed_;
  Chance chance_;
  std::vector<Bytes> best_;
  Bytes best_peak_ = kMaxBytes;
  Bytes target_ = 0;
  bool running_ = false;
  std::vector<Index> pool_;
  std::vector<std::int64_t> penalty_;  // per buffer
  std::int64_t runs_ = 0, moves_ = 0, most_moves_;
  double share_;  // of the way to the bound: the target of a run
  std::int64_t work_ = 0;
};

}  // namespace memplan
