// SqueakySearch: the search of the planner squeaky_wheel, in steps, so that it can take turns with other searches.
// planners/own/squeaky_wheel.cpp explains it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "search/wheel/repair.hpp"

namespace memplan {

// Holds the best plan so far. The result depends on the problem, the seed and the calls made, never on the clock,
// unless a deadline passes during a call.
class SqueakySearch {
 public:
  // `problem` outlives it; no plan of it peaks below `bound`. A deadline throws in each call that takes one, except
  // step(). After that, only the best plan so far is of use.
  SqueakySearch(const Problem& problem, std::uint64_t seed, Bytes bound, const Deadline& deadline);

  // The starting orders, each with both fits.
  static constexpr std::size_t kStarts = 12;
  static constexpr std::int64_t kWorkPerStart = 2000;  // of a buffer that a start places, in buffers looked at

  // Places all buffers by start k < kStarts. A buffer that would end above the bound is mended at once. If that fails,
  // it is left to step(). True if the plan is better than all before. If there is a plan already, gives up once far too
  // many buffers are out of place.
  bool start(std::size_t k, const Deadline& deadline);

  // A plan found elsewhere: an offset per buffer. True if it is better than all before.
  bool offer(std::span<const Bytes> offsets);

  // Goes on for about so much work, or until the peak is at most `enough`. It begins with the starts that have not been
  // made. The end of work never interrupts a start. True if the best plan is better than before.
  bool step(std::int64_t work, const Deadline& deadline, Bytes enough = 0);

  Bytes bound() const { return bound_; }
  Bytes peak() const { return peak_; }  // kMaxBytes without a plan
  std::span<const Bytes> best() const { return best_; }
  std::int64_t work() const { return work_ + repair_.work(); }  // buffers looked at

 private:
  // A plan with some buffers out of it, to be repaired.
  struct Attempt {
    std::vector<Bytes> offsets;
    std::vector<Rank> ranks;
    std::vector<Index> out;
    Bytes target;
    Fit fit;
  };

  std::int64_t patience() const;
  std::vector<Rank> ranks_of(std::size_t start, const Deadline& deadline) const;
  bool place(Attempt& attempt, std::int64_t mending, const Deadline& deadline);
  bool mend(Attempt& attempt, Index out, std::int64_t work_allowed, const Deadline& deadline);
  void resume(Attempt attempt, std::int64_t work_allowed, const Deadline& deadline);
  void next_attempt(const Deadline& deadline);
  std::size_t next_start();
  void end_descent();
  void descend(const Deadline& deadline);
  void work_until(std::int64_t end, const Deadline& deadline, Bytes enough);
  bool keep_if_better(std::vector<Bytes> offsets);

  const Problem& problem_;
  const Bytes bound_;
  const SectionLives lives_;
  Repair repair_;
  Chance chance_;
  std::int64_t work_ = 0;
  std::vector<Bytes> best_;
  Bytes peak_ = kMaxBytes;
  bool planned_ = false;

  std::array<std::size_t, kStarts> left_out_;   // per start, the fewest buffers that it left out
  std::array<std::int64_t, kStarts> patience_;  // per start, the work for repairs when it is made next; 0: not made yet
  std::size_t next_again_ = 0;                  // which of the most promising starts is made again next
  bool again_ = false;                          // the last start was made again

  bool active_ = false;             // a repair is under way
  bool descending_ = false;         // and it repairs the best plan
  std::int64_t slice_end_ = 0;      // the work at which it is given up
  std::int64_t descent_work_ = 0;   // in descents so far
  std::int64_t descent_begin_ = 0;  // the work at which the last one began
  int halvings_ = 1;                // of the way from the best peak to the bound, when descending
};

}  // namespace memplan
