// bfs: the op first whose predecessors ran earliest: their places in the order are compared as lists. Inductor's
// topological_sort_bfs.
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "order/rules.hpp"

namespace memplan {

FoundOrders bfs_order(const OrderTask& task) {
  const ContentsModel& model = task.model;
  const auto count = at(model.op_count());
  using Entry = std::pair<std::vector<Index>, Index>;  // places of what it waits for, ascending; op
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<std::size_t> waiting(count);
  std::vector<Index> place(count, kNone), order;
  const auto put = [&](Index op) {
    std::vector<Index> places;
    for (const Index before : model.waits[at(op)]) places.push_back(place[at(before)]);
    std::sort(places.begin(), places.end());
    ready.emplace(std::move(places), op);
  };
  for (Index op = 0; op < model.op_count(); ++op)
    if ((waiting[at(op)] = model.waits[at(op)].size()) == 0) put(op);
  while (!ready.empty()) {
    const Index op = ready.top().second;
    ready.pop();
    place[at(op)] = static_cast<Index>(order.size());
    task.deadline.tick(1 + model.waits[at(op)].size() + model.followers[at(op)].size());
    order.push_back(op);
    for (const Index next : model.followers[at(op)])
      if (--waiting[at(next)] == 0) put(next);
  }
  return {{{"bfs", std::move(order)}}};
}

}  // namespace memplan
