// dfs: each op as soon as all that it waits for has run, found from the ops with the fewest bytes on.
//
//     visit(op): visit what it waits for, the fewest bytes first; then run it
//
// The bytes of an op are those that it makes and those that it reads. Inductor's topological_sort_dfs.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "order/rules.hpp"

namespace memplan {

namespace {

std::vector<Bytes> bytes_touched(const ContentsModel& model) {
  std::vector<Bytes> bytes = model.making;
  for (std::size_t op = 0; op < bytes.size(); ++op)
    for (const Index i : model.uses[op]) bytes[op] += model.items[at(i)].bytes;
  return bytes;
}

}  // namespace

FoundOrders dfs_order(const OrderTask& task) {
  const ContentsModel& model = task.model;
  const std::vector<Bytes> bytes = bytes_touched(model);
  const auto fewest_first = [&](std::vector<Index> ops) {
    std::sort(ops.begin(), ops.end(),
              [&](Index a, Index b) { return std::tuple(bytes[at(a)], a) < std::tuple(bytes[at(b)], b); });
    return ops;
  };
  std::vector<Index> order;
  std::vector<bool> seen(bytes.size(), false);
  struct Visit {
    Index op;
    std::vector<Index> waits;  // fewest bytes first
    std::size_t next = 0;
  };
  std::vector<Visit> visits;  // without recursion, as chains may be as long as the graph
  const auto visit = [&](Index op) {
    if (seen[at(op)]) return;
    seen[at(op)] = true;
    task.deadline.tick(1 + model.waits[at(op)].size());
    visits.push_back({op, fewest_first(model.waits[at(op)])});
  };
  for (const Index first : fewest_first(as_given(model))) {
    visit(first);
    while (!visits.empty()) {
      Visit& last = visits.back();
      if (last.next < last.waits.size()) {
        visit(last.waits[last.next++]);
      } else {
        order.push_back(last.op);
        visits.pop_back();
      }
    }
  }
  return {{{"dfs", std::move(order)}}};
}

}  // namespace memplan
