// Ideals: the order of blocks of ops with the lowest load. An ideal is a set of blocks that may have run; the search
// goes through these sets.
//
//     blocks  a b c d      states: {} {a} {b} {ab} … {abcd}; a way goes from none to all, and needs its largest need
//
// The search first takes the state whose way needs least; of equal states, the one with most blocks. So every order
// needs at least as much as the way to this state. A block that frees at least as many bytes as it makes, and needs no
// more than the way so far, runs at once: no other way is better.
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
  bool backwards = false;   // from the end: states are the blocks that still have to run
};

struct BestWay {
  std::optional<std::vector<Index>> ops;  // no value if no order is below the limit, or the search was not over
  Bytes bound = 0;                        // every order of the blocks needs so much, or the limit
};

// `state` is the state of the model before the blocks, which are given in some order. Its work is subtracted from the
// work that is left. The deadline throws.
BestWay best_way(const ContentsModel& model, const OrderState& state, std::span<const std::vector<Index>> blocks,
                 const IdealSearch& search, const Deadline& deadline, std::int64_t& work_left);

}  // namespace memplan
