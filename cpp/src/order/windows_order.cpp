// windows: the given order, or that of a list, made better peak by peak: improving.hpp.
#include "memplan/errors.hpp"
#include "order/improving.hpp"
#include "order/lists.hpp"
#include "order/rules.hpp"

namespace memplan {

FoundOrders windows_order(const OrderTask& task) {
  const std::int64_t start = value_in(task.set, kWindowsParameters[1]);
  std::int64_t work_left = value_in(task.set, kOrderWork[0]);
  FoundOrders found{
      {{"windows", start == 0 ? as_given(task.model)
                              : list_order(task.model, list_rules()[static_cast<std::size_t>(start) - 1])}}};
  try {
    Improving(task.model, task.deadline, work_left).improve(found.best_first.front().ops);
  } catch (const InterruptedError&) {
    found.interrupted = true;
  } catch (const TimeLimitError&) {
  }
  return found;
}

}  // namespace memplan
