// Bound: bytes that every order of the ops needs, whichever tensors share bytes.
//
//     order  … a b │ v │ c …     v runs after some set of ops. The fewest bytes that any such set leaves alive,
//                                and what v makes, are a bound.
//
// Complexity: a minimum cut per op looked at, until the work is done.
#pragma once

#include <span>

#include "base/deadline.hpp"
#include "memplan/order_bound.hpp"
#include "order/contents_model.hpp"

namespace memplan {

// Looks at the ops that need most in an order, from the top down, until the bound is as high as the need of the next
// op, or the work is done. The bound holds at any time. A time limit that passes ends it. An interrupt is thrown.
OrderBound bound_of(const ContentsModel& model, std::span<const Index> order, std::int64_t work,
                    const Deadline& deadline);

// The same without the proof: in less time, and memory in proportion to the graph.
Bytes bytes_of_bound(const ContentsModel& model, std::span<const Index> order, std::int64_t work,
                     const Deadline& deadline);

}  // namespace memplan
