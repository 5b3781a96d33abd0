// Limits: when a search or planner has to end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace memplan {

struct Limits {
  std::optional<double> time_limit = {};  // seconds, > 0; then a search ends with its best result
  std::optional<std::chrono::steady_clock::time_point> start = {};  // when the limit begins; no value: at the call
  std::function<bool()> stop = {};  // called every few milliseconds, on the calling thread; true: end
};

}  // namespace memplan
