// Limits: when what runs has to end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace memplan {

struct Limits {
  std::optional<double> time_limit = {};                            // seconds, > 0; a search stops there with its best
  std::optional<std::chrono::steady_clock::time_point> start = {};  // where the limit counts from; no value: the call
  std::function<bool()> stop = {};  // asked every few milliseconds, on the thread that called; true: end
};

}  // namespace memplan
