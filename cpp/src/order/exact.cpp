// exact: the best list in blocks, made better by a search that ends with a proof, or with its work: exact_search.hpp.
#include <utility>

#include "memplan/errors.hpp"
#include "order/bound.hpp"
#include "order/exact_search.hpp"
#include "order/rules.hpp"
#include "order/starts.hpp"

namespace memplan {

FoundOrders exact_order(const OrderTask& task) {
  const std::int64_t work = value_in(task.set, kExactWork[0]);
  FoundOrders found;
  std::vector<Candidate> starts;
  try {
    const Blocks blocks = blocks_of(task.model, task.deadline);
    add_starts(task, blocks, starts);
    sort_candidates(starts);
    const std::vector<Index>& start = starts.front().order.ops;
    const Bytes bound = bytes_of_bound(task.model, start, work, task.deadline);
    task.tell.bound(bound);
    ExactOrder exact = search_exactly(task.model, blocks, start, bound, work, task.deadline, task.tell);
    found.best_first.push_back({"exact", std::move(exact.ops)});
    found.bound = exact.bound;
    found.interrupted = exact.interrupted;
    return found;
  } catch (const InterruptedError&) {
    found.interrupted = true;
  } catch (const TimeLimitError&) {
  }
  sort_candidates(starts);
  found.best_first.push_back({"exact", starts.empty() ? as_given(task.model) : std::move(starts.front().order.ops)});
  return found;
}

}  // namespace memplan
