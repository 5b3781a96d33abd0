// Windows: some ops of an order that follow one another, in the order that needs least at most, by a search through
// their ideals.
//
//     order  … p │ a b c d e f │ q …        states: the sets of a … f that may have run; the best way from none to all
//
// The search takes the state first whose way has needed least, and of those the one that is furthest. An op that frees
// at least what it makes, and needs no more than the way so far, runs at once: no other way is better for it.
//
// Complexity: O(states x ops of the window). Guarantee: the best order of the window, where the states are enough.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "order/contents_model.hpp"
#include "placing/deadline.hpp"

namespace memplan {

inline constexpr std::size_t kMostInWindow = 256;  // ops

// An order of the ops of a window that needs less than `limit` at most; nothing if there is none, or the states are
// not enough. `state` is what has run before.
std::optional<std::vector<Index>> window_order(const ContentsModel& model, const OrderState& state,
                                               std::span<const Index> window, Bytes limit, std::size_t states,
                                               const Deadline& deadline, std::int64_t& work);

}  // namespace memplan
