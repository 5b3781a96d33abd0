// The search of the planner squeaky_wheel, piece by piece, for whoever shares time among several.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "deadline.hpp"
#include "repair.hpp"

namespace memplan {

// Holds the best plan so far. What it does depends on the problem, the seed and the calls made, never on the clock,
// unless a deadline passes during a call.
class SqueakyWheel {
 public:
  // `problem` outlives it; no plan of it peaks below `bound`.
  SqueakyWheel(const Problem& problem, std::uint64_t seed, Bytes bound);

  // The starting orders, each with both fits; the ones that are most often best come first.
  static constexpr std::size_t kStarts = 12;

  // Places all by start k < kStarts, and has step() repair what ends above the bound there. True if that is a better
  // plan than those before. Gives up once much more is out of place than a repair could mend.
  bool start(std::size_t k, const Deadline& deadline);

  // A plan found elsewhere: an offset per buffer.
  bool offer(std::span<const Bytes> offsets);

  // Goes on for about that much work, or until the peak is `enough`; starts that have not been made are made when
  // their turn comes. True if the best plan is better than before.
  bool step(std::int64_t work, const Deadline& deadline, Bytes enough = 0);

  Bytes bound() const { return bound_; }
  Bytes peak() const { return peak_; }  // kMaxBytes without a plan
  std::span<const Bytes> best() const { return best_; }
  std::int64_t work() const { return work_ + repair_.work(); }  // buffers looked at

 private:
  // A plan with some buffers out of it, to be repaired at a target.
  struct Attempt {
    std::vector<Bytes> offsets;
    std::vector<Rank> ranks;
    Bytes target = 0;
    Fit fit = Fit::kLowest;
    std::size_t out = 0;
  };

  std::vector<Rank> ranks_of(std::size_t order) const;
  bool keep_if_better(std::vector<Bytes> offsets);
  void resume(const Attempt& attempt);
  Attempt suspended() const;
  void next_attempt(const Deadline& deadline);
  void descend();

  const Problem& problem_;
  const Bytes bound_;
  const SectionLives lives_;
  Repair repair_;
  Chance chance_;
  std::int64_t work_ = 0;
  std::vector<Bytes> best_;
  Bytes peak_ = kMaxBytes;

  std::size_t next_start_ = 0;
  std::vector<Attempt> waiting_;  // those that came nearest to their target
  std::size_t turn_of_ = 0;       // in waiting_, kNoAttempt while descending
  Fit fit_ = Fit::kLowest;
  bool active_ = false;           // the repair is under way
  std::int64_t slice_ = 0;        // work per attempt
  std::int64_t slice_end_ = 0;
  int halvings_ = 0;              // of the way from the best peak to the bound, when descending
};

}  // namespace memplan
