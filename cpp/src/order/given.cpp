// given: the ops as the source lists them.
#include <numeric>

#include "order/rules.hpp"

namespace memplan {

std::vector<Index> as_given(const ContentsModel& model) {
  std::vector<Index> ops(at(model.op_count()));
  std::iota(ops.begin(), ops.end(), Index{0});
  return ops;
}

FoundOrders given_order(const OrderTask& task) { return {{{"given", as_given(task.model)}}}; }

}  // namespace memplan
