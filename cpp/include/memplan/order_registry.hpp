// The one table of orders. The command line's help, the documents and the tests are made from its rows.
//
// "best" never has a higher load than the given order. All other orders may have a higher load.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "memplan/order_info.hpp"
#include "memplan/parameters.hpp"

namespace memplan {

std::span<const OrderInfo> orders();

// An order with its parameters.
struct ChosenOrder {
  const OrderInfo& order;
  std::string asked;  // the text that chose it
  Settings set;
};

// Reads "name" or "name:parameter=value,…". Throws std::invalid_argument, which lists the known names, parameters or
// values.
ChosenOrder choose_order(std::string_view text);

}  // namespace memplan
