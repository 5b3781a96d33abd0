// Window repair: a plan that is above a target in a few places only is mended there, and stays as it is elsewhere.
//
//     target ▲╌╌╌╌╌╌╌╌┌──┐╌╌╌╌╌╌╌╌╌╌╌╌      A buffer that ends above the target is taken out. A window is a stretch of
//            │  ┊ ┌───┴─┬┴─┐   ┊            time around it. Buffers wholly in the window may move, others are fixed.
//            │──┼─┴─┐   │  │ ──┼───         So if the window is repaired, the whole plan is.
//            └──┊───┴───┴──┴───┊──▶ step
//                   window
//
// A window that fails grows, until all is done or the work is spent.
//
// O(n) per size of windows, and the repairs. Guarantee: the peak does not rise.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Whether all buffers end at the target or below afterwards. `offsets`, one per buffer, are a plan before and after.
// Plans that are above the target in many places are left alone. `work` is counted in buffers looked at; the work done
// is taken off it. The problem has no shapes and no conflicts beyond lifetimes. If the deadline throws, the offsets are
// a plan even so.
bool repair_in_windows(const Problem& problem, std::vector<Bytes>& offsets, Bytes target, std::uint64_t seed,
                       std::int64_t& work, const Deadline& deadline);

}  // namespace memplan
