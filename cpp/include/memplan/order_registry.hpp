// The one table of orders: what exists can be read here; the command line's help, the documents and the tests are made
// from these rows.
//
// An order by one of these names is taken as it is, and may have a higher load than the given one. "best" never has.
#pragma once

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
  bool interrupted = false;  // asked to end
};

struct OrderInfo {
  std::string_view name;
  std::string_view title;       // one line for people
  std::string_view complexity;  // n ops and m edges; f followers of an op at most
  std::string_view source;      // paper or project
  FoundOrders (*run)(const OrderTask& task);
  std::span<const Parameter> parameters = {};
};

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
