// auto: keeps the best of a few. Runs its members in order of their cost, and stops as soon as a peak equals the
// load, which proves it, or fits the capacity, or when the time limit has passed; a member that is cut short counts
// for nothing, the first is never cut short.
//
// greedy_by_size is left out of problems with very many pairs of buffers that overlap in time, such as training
// graphs of a million buffers, where it may run for long. Which members run depends on the problem alone, unless a
// time limit is set.
//
// Complexity: that of its members. Guarantee: none below the best member's.
#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "planners.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kMostPairs = 300'000'000;

// The best placement so far.
class Best {
 public:
  Best(const Problem& problem, const PlanOptions& options)
      : problem_(problem), options_(options), enough_(options.enough(load(problem))) {}

  void offer(std::string_view member, Placement placement) {
    const Bytes peak = peak_of(problem_, placement.offsets);
    if (!placement_.winner.empty() && peak >= peak_) return;
    placement_ = std::move(placement);
    placement_.winner = member;
    peak_ = peak;
    options_.tell({placement_.offsets, peak, 0, member});
  }

  bool is_enough() const { return peak_ <= enough_; }
  Placement take() { return std::move(placement_); }

 private:
  const Problem& problem_;
  const PlanOptions& options_;
  Bytes enough_;
  Placement placement_;
  Bytes peak_ = kMaxBytes;
};

}  // namespace

Placement portfolio(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  Best best(problem, options);
  if (problem.conflicts() != nullptr) {  // the fits know of lifetimes only
    best.offer("greedy_by_size", greedy_by_size(problem, options));
    return best.take();
  }
  const Problem plain = problem.without_shapes();
  best.offer("first_fit", first_fit(plain, options));
  if (!best.is_enough() && !deadline.passed()) best.offer("best_fit", best_fit(plain, options));
  if (!best.is_enough() && !deadline.passed() && overlapping_pairs(problem) <= kMostPairs)
    if (auto greedy = greedy_by_size_until(problem, deadline)) best.offer("greedy_by_size", *std::move(greedy));
  return best.take();
}

}  // namespace memplan
