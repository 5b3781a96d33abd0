// windows: the given order, or that of a list, made better peak by peak: improving.hpp.
#include "memplan/errors.hpp"
#include "order/improving.hpp"
#include "order/lists.hpp"
#include "order/rules.hpp"

namespace memplan {

FoundOrders windows_order(const OrderTask& task) {
  const auto start = static_cast<std::size_t>(value_in(task.set, kWindowsParameters[1]));
  std::int64_t work_left = value_in(task.set, kWindowsParameters[0]);
  FoundOrders found;
  found.best_first.push_back({"windows", as_given(task.model)});
  try {
    if (start > 0) found.best_first.front().ops = list_order(task.model, list_rules()[start - 1], task.deadline);
    const Blocks blocks = blocks_of(task.model, task.deadline);
    Improving(task.model, blocks, task.deadline, work_left, task.tell).improve("windows", found.best_first.front().ops);
  } catch (const InterruptedError&) {
    found.interrupted = true;
  } catch (const TimeLimitError&) {
  }
  return found;
}

}  // namespace memplan
