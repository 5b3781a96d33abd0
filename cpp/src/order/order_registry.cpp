#include "memplan/order_registry.hpp"

#include <stdexcept>
#include <utility>

#include "memplan/errors.hpp"
#include "order/lists.hpp"
#include "order/rules.hpp"

namespace memplan {

namespace {

template <std::size_t kRule>
FoundOrders by_list(const OrderTask& task) {
  const ListRule& rule = list_rules()[kRule];
  return {{{std::string(rule.name), list_order(task.model, rule, task.deadline)}}};
}

constexpr std::string_view kInductor = "PyTorch's Inductor, memory.py";
constexpr std::string_view kListCost = "O((n + m) log n)";

// name, title, complexity, source, function, parameters.
constexpr OrderInfo kOrderTable[] = {
    {"given", "the ops as the source lists them", "O(n)", "the baseline of every comparison", given_order},
    {"best", "lists, exact search, windows; never worse than given, and with a bound of all orders",
     "that of its members", "memplan", best_orders, kOrderWork},
    {"lpmf", "what fits below the peak so far and adds least; else what makes least", "O((n + m) log n)", kInductor,
     lpmf_order},
    {"bfs", "the op first whose predecessors ran earliest", "O(n m / n log n)", kInductor, bfs_order},
    {"dfs", "an op when all that it waits for has run, from those that touch the fewest bytes on", "O((n + m) log n)",
     kInductor, dfs_order},
    {"growth", "the op next that adds least to what is alive", kListCost, "list scheduling", by_list<0>},
    {"release", "the op next that frees most; else the one that could run last of all", kListCost, "list scheduling",
     by_list<1>},
    {"newest", "the op next that could run last of all", kListCost, "list scheduling; depth first", by_list<2>},
    {"oldest", "the op next that could run first of all", kListCost, "list scheduling; breadth first", by_list<3>},
    {"growth_backwards", "from the end: the op before that lowers what is alive most", kListCost, "list scheduling",
     by_list<4>},
    {"release_backwards", "from the end: the op before that lowers what is alive most; else the newest", kListCost,
     "list scheduling", by_list<5>},
    {"newest_backwards", "from the end: the op before that could run there last of all", kListCost, "list scheduling",
     by_list<6>},
    {"oldest_backwards", "from the end: the op before that could run there first of all", kListCost, "list scheduling",
     by_list<7>},
    {"exact", "the best list, made better by a search that ends with a proof, or with its work", "exponential",
     "memplan; Liu 1987", exact_order, kExactWork},
    {"hill_valley", "blocks by their hills and valleys: what falls first, then the deepest fall from its hill",
     "O((n + m) log n), and that of blocks", "Liu 1987", hill_valley_order},
    {"windows", "the given order, or a list, made better by windows around the peak in their best order", "by its work",
     "memplan; large neighbourhood search", windows_order, kWindowsParameters},
};

}  // namespace

std::span<const OrderInfo> orders() { return kOrderTable; }

ChosenOrder choose_order(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  for (const OrderInfo& order : kOrderTable)
    if (order.name == name)
      return {order, std::string(text), settings_in(text, order.parameters, "order " + quoted(name))};
  throw std::invalid_argument("order must be one of " + listed(kOrderTable, [](const auto& row) { return row.name; }) +
                              ", got " + quoted(name));
}

}  // namespace memplan
