// Time share: how the parts of some work share its time limit.
//
//     begin ───────── now ──────────────────────── begin + limit
//       used by others │ share of what is left │ rest
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/deadline.hpp"
#include "memplan/limits.hpp"

namespace memplan {

// Seconds that a part is given, however late it begins: enough to end with its best result so far.
inline constexpr double kLeastTime = 1e-3;

// A share of so many seconds; without a limit, the share has none.
inline std::optional<double> share_of(std::optional<double> seconds, double share) {
  if (seconds) *seconds *= share;
  return seconds;
}

// Gives a part that begins now its share of the time that is left, but at least kLeastTime. The limit counts from
// `begin`. Without a limit, the part has none.
inline void share_time(Limits& part, std::optional<double> limit, std::chrono::steady_clock::time_point begin,
                       double share = 1) {
  part.start.reset();
  part.time_limit = limit;
  if (limit) part.time_limit = std::max(kLeastTime, share * (*limit - seconds_since(begin)));
}

}  // namespace memplan
