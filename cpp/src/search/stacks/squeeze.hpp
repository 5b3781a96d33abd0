// Squeeze: the gap between the best peak and the lower bound, closed from both sides by runs of the valley search.
//
//     peak ▲ ─── best so far      Each run has a capacity between the two. At the bound itself, a plan is optimal, and
//          │  ▼  targets          a proof that there is none raises the bound. In the upper half, a plan is likely, and
//          │                      lowers the best peak by up to half of the gap.
//          │ ─── lower bound
//
// If no byte is free in any section at the bound, a stack search goes first. If few bytes are free, it takes turns.
//
// Peaks are sums of sizes and paddings, so they are multiples of the greatest common divisor of sizes and alignments.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/stacks/stack_search.hpp"
#include "search/valley/valley_search.hpp"

namespace memplan {

class Squeeze {
 public:
  // `lower_bound` is proven. One in `at_bound` runs is at the bound, which proves most.
  Squeeze(const Problem& problem, const Sections& sections, Bytes lower_bound, std::uint64_t seed,
          const Deadline& deadline, std::int64_t at_bound = 4, Inferences use = {});

  // One run between the lower bound and `peak`, the best so far; true if it found a better plan.
  bool step(Bytes peak, std::int64_t work, const Deadline& deadline);

  // One run at this capacity. Both end once so much work has been done in all.
  Decision attempt(Bytes capacity, std::int64_t work, const Deadline& deadline);

  // Per buffer of the problem: the plan found last.
  std::vector<Bytes> offsets() const;

  Bytes lower_bound() const { return lower_bound_; }
  std::int64_t work() const { return search_.work() + (stacks_ ? stacks_->work() : 0); }

 private:
  bool attempt_stacks(std::int64_t length, std::int64_t number, std::int64_t work, const Deadline& deadline);
  void raise_above(Bytes capacity);

  const Problem& problem_;
  const Sections& sections_;
  ValleySearch search_;
  std::optional<StackSearch> stacks_;  // if it serves the problem
  bool stacked_ = false;               // it found the last plan
  Bytes lower_bound_;
  Bytes step_ = 1;  // between peaks that may be
  std::int64_t turn_ = 0;
  const std::int64_t at_bound_;
  std::int64_t runs_ = 0;
};

}  // namespace memplan
