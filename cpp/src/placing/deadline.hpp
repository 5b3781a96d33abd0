// Deadline: whether a search has to end, since its time limit has passed or since someone asked it to.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "memplan/planner.hpp"

namespace memplan {

// Belongs to the thread that asks it.
class Deadline {
 public:
  Deadline() = default;  // never passes

  // Counts from now; `options` outlives it.
  explicit Deadline(const PlanOptions& options)
      : seconds_(options.time_limit), stop_(options.stop ? &options.stop : nullptr) {}

  // Seconds of the time limit that are left, if there is one.
  std::optional<double> left() const {
    if (!seconds_) return std::nullopt;
    return std::max(1e-9, *seconds_ - std::chrono::duration<double>(Clock::now() - start_).count());
  }

  bool passed() const {
    if (passed_ || (!seconds_ && stop_ == nullptr)) return passed_;
    const auto now = Clock::now();
    if (seconds_ && std::chrono::duration<double>(now - start_).count() >= *seconds_) passed_ = true;
    if (stop_ != nullptr && now >= next_look_) {
      next_look_ = now + kBetweenLooks;
      if ((*stop_)()) passed_ = true;
    }
    return passed_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBetweenLooks{10};  // at what others may want

  std::optional<double> seconds_;
  const std::function<bool()>* stop_ = nullptr;
  Clock::time_point start_ = Clock::now();
  mutable Clock::time_point next_look_ = start_;
  mutable bool passed_ = false;
};

}  // namespace memplan
