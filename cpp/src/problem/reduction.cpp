#include "problem/reduction.hpp"

#include "problem/unbranched.hpp"

namespace memplan {

Reduction::Reduction(const Problem& problem, LowBytes low_bytes) : problem_(without_branches(problem)) {
  if (!problem_.together().empty()) problem_ = fold_.emplace(problem_).problem();
  if (low_bytes == LowBytes::kLeftOut) shift_ = Shift::of(problem_);
  if (shift_) problem_ = shift_->problem();
  identity_ = !problem.has_branches() && !fold_ && !shift_;
}

std::vector<Bytes> Reduction::restored(std::span<const Bytes> offsets) const {
  std::vector<Bytes> found(offsets.begin(), offsets.end());
  if (shift_) found = shift_->unshifted(found);
  return fold_ ? fold_->unfolded(found) : found;
}

std::vector<Bytes> Reduction::reduced(std::span<const Bytes> offsets) const {
  std::vector<Bytes> found(offsets.begin(), offsets.end());
  if (fold_) found = fold_->folded(found);
  return shift_ ? shift_->shifted(found) : found;
}

}  // namespace memplan
