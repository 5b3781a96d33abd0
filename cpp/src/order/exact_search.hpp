// Exact search: the order with the lowest load, by a search through sets of blocks (ideals.hpp), part by part, from
// both ends.
//
//     blocks  a b │ v c d │ w e      all others come before or after v, and w: each part has its own best order
//
// Complexity: exponential; ends when the work is done. Guarantee: its bound holds for every order and every sharing,
// and its order has that load if the search ends by itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "order/blocks.hpp"
#include "order/contents_model.hpp"
#include "order/order_reporter.hpp"

namespace memplan {

struct ExactOrder {
  std::vector<Index> ops;  // the order to begin with, if no better one was found
  Bytes bound = 0;         // no order and no sharing needs less
  bool interrupted = false;
};

// Begins with an order, and a known bound. The load of the order is the limit of the search.
ExactOrder search_exactly(const ContentsModel& model, const Blocks& blocks, std::span<const Index> order, Bytes bound,
                          std::int64_t work, const Deadline& deadline, OrderReporter& tell);

}  // namespace memplan
