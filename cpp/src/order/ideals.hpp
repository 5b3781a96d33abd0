// Ideals: the order of blocks of ops with the lowest load. An ideal is a set of blocks that may have run; the search
// goes through these sets.
//
//     blocks  a b c d      states: {} {a} {b} {ab} … {abcd}; a way goes from none to all, and needs its largest need
//
// The search first takes the state whose way has needed least; of these, the one with most blocks. So every order needs
// at least what the way to this state has needed. A block that frees at least what it makes, and needs no more than the
// way so far, runs at once: no other way is better.
//
// Complexity: O(states x blocks that may run next). Guarantee: the best order of the blocks, if it ends by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "order/contents_model.hpp"

namespace memplan {

struct IdealSearch {
  std::int64_t work = 0;    // steps of some nanoseconds, after which it ends
  Bytes enough = 0;         // a need that is low enough
  Bytes limit = kMaxBytes;  // all needs are below it
  bool backwards = false;   // from the end: states are what has to run before
};

struct BestWay {
  std::optional<std::vector<Index>> ops;  // no value if no order is below the limit, or the search was not over
  Bytes bound = 0;                        // what every order of the blocks needs, or the limit
};

// `state` is what has run before the blocks, which are in an order. Takes its work off what is left. The deadline
// throws.
BestWay best_way(const ContentsModel& model, const OrderState& state, std::span<const std::vector<Index>> blocks,
                 const IdealSearch& search, const Deadline& deadline, std::int64_t& work_left);

}  // namespace memplan
