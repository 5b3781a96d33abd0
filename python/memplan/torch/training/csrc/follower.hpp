// Which allocation of a recorded step is that of a later step? Only sizes say so, one after another.
//
// While the step is as it was recorded, the answer is the next one. Else the answer may be one nearby: allocations may
// be new, gone, swapped, or of another size. Let the shift be how far the step is ahead of the tape, or behind. A new
// shift is taken only if the last sizes fit it better than the shift so far: one size alone may be equal by chance.
//
//   tape    10 20 30 40 50 60          tape    10 20 30 40 50 60
//   step    10 30 40 50 60             step    10 25 30 40 50 60
//              └ 20 is gone: shift 1              └ another size: shift 0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace memplan::run {

using Bytes = std::int64_t;

constexpr Bytes kAnySize = -1;  // the size of what the plan says nothing of

class Follower {
 public:
  static constexpr std::size_t kWindow = 256;  // a shift changes by so many at most

  struct Found {
    std::size_t slot;  // size() if there is none
    bool as_recorded;  // the slot that should be next, and of this size
    Bytes expected;    // the size that should be next; kAnySize at the end
  };

  explicit Follower(std::vector<Bytes> sizes) : sizes_(std::move(sizes)), used_(sizes_.size(), 0) {}

  std::size_t size() const { return sizes_.size(); }
  std::size_t count() const { return step_sizes_.size(); }  // allocations of the step so far
  Bytes size_of(std::size_t slot) const { return sizes_[slot]; }

  void begin() {
    ++step_;
    next_ = 0;
    in_a_row_ = 0;
    home_ = 0;
    step_sizes_.clear();
  }

  // O(1) while the step is as recorded, else O(kWindow).
  Found next(Bytes size) {
    step_sizes_.push_back(size);
    const std::size_t at = next_++;
    const Bytes expected = at < sizes_.size() ? sizes_[at] : kAnySize;
    if (at < sizes_.size() && !is_used(at) && (expected == size || expected == kAnySize)) {
      if (++in_a_row_ == kCertain) home_ = shift_of(at);
      return {use(at), true, expected};
    }
    in_a_row_ = 0;
    if (const std::size_t other = best_shift(at, size); other < sizes_.size()) {
      next_ = other + 1;
      return {use(other), false, expected};
    }
    if (const std::size_t swapped = near(at, size); swapped < sizes_.size()) return {use(swapped), false, expected};
    return {std::min(at, sizes_.size()), false, expected};  // not used: what belongs there may still come
  }

 private:
  static constexpr std::size_t kMemory = 32;   // sizes that a shift is judged by; the last ones weigh most
  static constexpr std::size_t kNear = 4;      // places that two allocations may be apart that have changed places
  static constexpr std::size_t kCertain = 24;  // sizes in a row after which a shift is certain
  static constexpr double kFade = 0.9, kHome = 5, kMore = 1;

  bool is_used(std::size_t slot) const { return used_[slot] == step_; }

  std::size_t use(std::size_t slot) {
    used_[slot] = step_;
    return slot;
  }

  std::int64_t shift_of(std::size_t slot) const {
    return static_cast<std::int64_t>(slot + 1) - static_cast<std::int64_t>(step_sizes_.size());
  }

  bool is_match(std::size_t slot, Bytes size) const {
    return slot < sizes_.size() && sizes_[slot] == size && !is_used(slot);
  }

  // The slot nearby of this size whose shift fits the last sizes better than that of `at`; size() if none.
  std::size_t best_shift(std::size_t at, Bytes size) const {
    double best = score(at) + kMore;
    std::size_t found = sizes_.size();
    const auto attempt = [&](std::size_t slot) {
      if (!is_match(slot, size)) return;
      const double fits = score(slot);
      if (fits <= best) return;
      best = fits;
      found = slot;
    };
    for (std::size_t distance = 1; distance <= kWindow; ++distance) {
      attempt(at + distance);
      if (distance <= at) attempt(at - distance);
    }
    return found;
  }

  // The next slot of this size, as two allocations may have changed places; size() if none.
  std::size_t near(std::size_t at, Bytes size) const {
    for (std::size_t distance = 1; distance <= kNear; ++distance) {
      if (is_match(at + distance, size)) return at + distance;
      if (distance <= at && is_match(at - distance, size)) return at - distance;
    }
    return sizes_.size();
  }

  // How well the last sizes fit if the last one is that of the slot.
  double score(std::size_t slot) const {
    double sum = shift_of(slot) == home_ ? kHome : 0, weight = 1;
    const std::size_t last = step_sizes_.size() - 1;
    for (std::size_t back = 0; back < kMemory && back <= last && back <= slot; ++back, weight *= kFade)
      if (slot - back < sizes_.size() && sizes_[slot - back] == step_sizes_[last - back]) sum += weight;
    return sum;
  }

  std::vector<Bytes> sizes_;         // of the tape
  std::vector<Bytes> step_sizes_;    // of the step so far
  std::vector<std::uint32_t> used_;  // by slot: the last step that used it
  std::size_t next_ = 0, in_a_row_ = 0;
  std::int64_t home_ = 0;  // the last shift that was certain, as shift_of
  std::uint32_t step_ = 0;
};

}  // namespace memplan::run
