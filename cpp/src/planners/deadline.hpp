// Deadline: whether the time limit that a solve was given has passed.
#pragma once

#include <chrono>
#include <optional>

namespace memplan {

class Deadline {
 public:
  // Counts from now; without seconds it never passes.
  explicit Deadline(std::optional<double> seconds) : seconds_(seconds), start_(Clock::now()) {}

  bool passed() const { return seconds_ && std::chrono::duration<double>(Clock::now() - start_).count() >= *seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<double> seconds_;
  Clock::time_point start_;
};

}  // namespace memplan
