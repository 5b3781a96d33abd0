#include "search/stacks/squeeze.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/luby.hpp"

namespace memplan {

namespace {

Bytes common_divisor(const Sections& sections) {
  Bytes divisor = 0;
  for (Index x = 0; x < sections.items(); ++x) divisor = std::gcd(divisor, sections.size[x] - sections.padding[x]);
  for (Bytes alignment : sections.alignment)
    if (alignment > 1) divisor = std::gcd(divisor, alignment);
  return std::max<Bytes>(1, divisor);
}

}  // namespace

Squeeze::Squeeze(const Problem& problem, const Sections& sections, Bytes lower_bound, std::uint64_t seed,
                 const Deadline& deadline, std::int64_t at_bound, Inferences use)
    : problem_(problem),
      sections_(sections),
      search_(sections, seed, deadline, use),
      lower_bound_(lower_bound),
      step_(common_divisor(sections)),
      at_bound_(at_bound) {
  if (const Bytes excess = lower_bound_ % step_; excess > 0) lower_bound_ += step_ - excess;
  if (use.stacks && StackSearch::serves(sections, lower_bound_, step_))
    stacks_.emplace(sections, step_, seed, use.vary);
}

bool Squeeze::step(Bytes peak, std::int64_t work, const Deadline& deadline) {
  const Bytes gap = (peak - 1 - lower_bound_) / step_;  // in steps: the highest target
  Bytes target = 0;
  if (turn_++ % at_bound_ != 0) {
    const double share = std::fmod(static_cast<double>(turn_) * 0.6180339887498949, 1.0);  // spread evenly
    target = static_cast<Bytes>(static_cast<double>(gap) * (1 + share) / 2);
  }
  return attempt(lower_bound_ + target * step_, work, deadline) == Decision::found;
}

Decision Squeeze::attempt(Bytes capacity, std::int64_t work, const Deadline& deadline) {
  constexpr std::int64_t kLeastNodes = 256, kMostBacktracking = 4096;
  const std::int64_t items = sections_.items();
  const std::int64_t unit = std::max(kLeastNodes, items + std::min(items, kMostBacktracking));
  const std::int64_t number = runs_++;
  const std::int64_t length = unit * luby(static_cast<std::uint64_t>(number) + 1);
  stacked_ = stacks_ && attempt_stacks(length, number, work, deadline);
  if (stacked_) return Decision::found;
  if (capacity < lower_bound_) return Decision::infeasible;
  const Decision outcome = search_.run(capacity, number, {length, work, deadline});
  if (outcome == Decision::infeasible) raise_above(capacity);
  return outcome;
}

// A run at the bound; true when it found a plan. With gaps, what is easy is left to the valley search.
bool Squeeze::attempt_stacks(std::int64_t length, std::int64_t number, std::int64_t work, const Deadline& deadline) {
  if (!StackSearch::serves(sections_, lower_bound_, step_, number == 0 ? 0 : StackSearch::kMostHoles)) return false;
  const RunLimits limits{length, work - search_.work(), deadline};
  const Decision outcome = stacks_->run(lower_bound_, number, limits);
  if (outcome == Decision::infeasible) raise_above(lower_bound_);
  return outcome == Decision::found;
}

void Squeeze::raise_above(Bytes capacity) { lower_bound_ = std::max(lower_bound_, (capacity / step_ + 1) * step_); }

std::vector<Bytes> Squeeze::offsets() const {
  std::vector<Bytes> offsets(problem_.size().size(), 0);
  const std::span<const Bytes> found = stacked_ ? stacks_->offsets() : search_.offsets();
  for (Index x = 0; x < sections_.items(); ++x) offsets[sections_.buffer[x]] = found[x];
  return offsets;
}

}  // namespace memplan
