// The one table of orders: what exists can be read here; the command line's help, the documents and the tests are made
// from these rows.
//
// An order by one of these names is taken as it is, and may have a higher load than the given order. "best" never has a
// higher load.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "memplan/order_info.hpp"
#include "memplan/parameters.hpp"

namespace memplan {

std::span<const OrderInfo> orders();

// An order and the parameters that it is given.
struct ChosenOrder {
  const OrderInfo& order;
  std::string asked;  // the text that chose it
  Settings set;
};

// What "name" or "name:parameter=value,…" means. Throws std::invalid_argument that lists the names, the parameters, or
// the values that it takes.
ChosenOrder choose_order(std::string_view text);

}  // namespace memplan
