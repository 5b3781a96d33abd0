// Deadline: whether a planner has to end, because its time limit has passed, or because the caller asked it to.
//
// Long loops call tick(). It looks at the clock once in many calls, and throws when the time has come. A search catches
// that and keeps its best plan (best_so_far.hpp). Other planners have no plan before they are done, and let it through.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "memplan/errors.hpp"
#include "memplan/limits.hpp"

namespace memplan {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Belongs to the thread that asks it.
class Deadline {
 public:
  Deadline() = default;  // never passes

  // Counts from the start that the limits name, or else from now; `limits` outlives it.
  explicit Deadline(const Limits& limits)
      : seconds_(limits.time_limit),
        stop_(limits.stop ? &limits.stop : nullptr),
        start_(limits.start.value_or(Clock::now())) {}

  // Seconds of the time limit that are left, if there is one.
  std::optional<double> left() const {
    if (!seconds_) return std::nullopt;
    return std::max(1e-9, *seconds_ - seconds_since_start());
  }

  // The same deadline, but tick() checks it only after so much work.
  Deadline after(std::size_t work) const {
    Deadline later = *this;
    later.ticks_left_ = std::max(later.ticks_left_, work);
    return later;
  }

  bool passed() const {
    if (passed_ || (!seconds_ && stop_ == nullptr)) return passed_;
    const auto now = Clock::now();
    if (seconds_ && seconds_since_start(now) >= *seconds_) passed_ = true;
    if (stop_ != nullptr && now >= next_look_) {
      next_look_ = now + kBetweenLooks;
      if ((*stop_)()) passed_ = asked_ = true;
    }
    return passed_;
  }

  // Throws InterruptedError or TimeLimitError if it has passed.
  void check() const {
    if (!passed()) return;
    if (asked_) throw InterruptedError("asked to end");
    throw TimeLimitError("the time limit has passed");
  }

  // `work` more has been done, in steps of some ten nanoseconds; now and then, checks.
  void tick(std::size_t work = 1) const {
    if (work < ticks_left_) {
      ticks_left_ -= work;
      return;
    }
    ticks_left_ = kTicksBetweenLooks;
    check();
  }

  // The comparison, which also ticks: for sorting many elements.
  template <class Less>
  auto ticking(Less less) const {
    return [this, less](const auto& a, const auto& b) {
      tick();
      return less(a, b);
    };
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBetweenLooks{10};  // between two calls of `stop`
  static constexpr std::size_t kTicksBetweenLooks = 1 << 14;

  double seconds_since_start(Clock::time_point now = Clock::now()) const {
    return std::chrono::duration<double>(now - start_).count();
  }

  std::optional<double> seconds_;
  const std::function<bool()>* stop_ = nullptr;
  Clock::time_point start_ = Clock::now();
  mutable Clock::time_point next_look_ = start_;
  mutable bool passed_ = false;
  mutable bool asked_ = false;  // `stop` asked for the end
  mutable std::size_t ticks_left_ = kTicksBetweenLooks;
};

// Does the work, which may tick; false if a deadline ended it.
template <class Work>
bool in_time(Work&& work) {
  try {
    work();
    return true;
  } catch (const EndedError&) {
    return false;
  }
}

}  // namespace memplan
