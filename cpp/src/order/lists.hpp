// Lists: an order is made op by op, each the best of those that may come next by a rule; from the beginning or the end.
//
//     forwards                      backwards
//     done │ ready: a b c           ready: a b c │ done       ready from the end: all that wait for it are done
//
// O((ops + edges) log ops), but for rules that look at all that is ready.
#pragma once

#include <string_view>
#include <vector>

#include "order/contents_model.hpp"

namespace memplan {

struct ListOrder {
  std::string_view name;
  std::vector<Index> ops;
};

// An order by each of the rules.
std::vector<ListOrder> list_orders(const ContentsModel& model);

}  // namespace memplan
