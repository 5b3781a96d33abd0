// OrderInfo: a row of the table of orders. It describes a rule or search that puts the ops of a graph in an order.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/parameters.hpp"
#include "memplan/units.hpp"

namespace memplan {

struct OrderTask;  // in order/rules.hpp

struct FoundOrder {
  std::string name;        // the rule or search that found it
  std::vector<Index> ops;  // of the graph, in the order in which they run
};

struct FoundOrders {
  std::vector<FoundOrder> best_first;
  Bytes bound = 0;           // no order and no sharing has a lower load; 0: nothing is proven
  bool interrupted = false;  // `stop` asked for an end
};

// The best result of a search so far.
struct OrderProgress {
  std::string found_by;  // the rule or search that found the best order
  Bytes needed = 0;      // bytes needed by this order, with each content counted once
  Bytes bound = 0;       // no order and no sharing has a lower load; 0: nothing is proven
};

using OnOrder = std::function<void(const OrderProgress&)>;

struct OrderInfo {
  std::string_view name;
  std::string_view title;       // one line for people
  std::string_view complexity;  // for n ops and m edges; an op has at most f followers
  std::string_view source;      // paper or project
  FoundOrders (*run)(const OrderTask& task);
  std::span<const Parameter> parameters = {};
};

}  // namespace memplan
