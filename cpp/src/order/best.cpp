// best: the portfolio. The given order and all lists, the exact search from the best of them, and windows where it does
// not end. It stops as soon as an order needs no more than the bound.
#include <algorithm>
#include <utility>

#include "memplan/errors.hpp"
#include "order/bound.hpp"
#include "order/exact_search.hpp"
#include "order/rules.hpp"
#include "order/starts.hpp"

namespace memplan {

namespace {

constexpr std::size_t kStarts = 3;        // orders that windows make better
constexpr std::int64_t kPartOfExact = 4;  // of the work: one part of so many

class OrderPortfolio {
 public:
  explicit OrderPortfolio(const OrderTask& task) : task_(task), work_left_(value_in(task.set, kOrderWork[0])) {}

  FoundOrders run() {
    candidates_.push_back(candidate_of(task_.model, {"given", as_given(task_.model)}));
    task_.tell.order("given", candidates_.front().height.load);
    try {
      search();
    } catch (const InterruptedError&) {
      found_.interrupted = true;
    } catch (const TimeLimitError&) {
    }
    sort_candidates(candidates_);
    for (Candidate& candidate : candidates_) found_.best_first.push_back(std::move(candidate.order));
    return std::move(found_);
  }

 private:
  void search() {
    const OrderTask& task = task_;
    if (is_proven()) return;
    const Blocks blocks = blocks_of(task.model, task.deadline);
    add_starts(task, blocks, candidates_);
    sort_candidates(candidates_);
    if (is_proven()) return;
    keep({"hill_valley+limit", hill_valley(task.model, blocks, task.deadline, found_.bound)});
    if (is_proven()) return;
    ExactOrder exact = search_exactly(task.model, blocks, candidates_.front().order.ops, found_.bound,
                                      work_left_ / kPartOfExact, task.deadline, task.tell);
    found_.bound = std::max(found_.bound, exact.bound);
    keep({"exact", std::move(exact.ops)});
    if (exact.interrupted) throw InterruptedError("asked to end");
    task.deadline.check();
    const auto starts = static_cast<std::ptrdiff_t>(std::min(kStarts, candidates_.size()));
    const std::vector<Candidate> begin(candidates_.begin(), candidates_.begin() + starts);
    for (const Candidate& start : begin)
      if (candidates_.front().height.load > found_.bound) improve(start, blocks);
  }

  // Whether no order needs less than the best one.
  bool is_proven() {
    const Candidate& best = candidates_.front();
    if (best.height.load > found_.bound)
      found_.bound = std::max(found_.bound, bytes_of_bound(task_.model, best.order.ops, work_left_, task_.deadline));
    task_.tell.bound(found_.bound);
    return best.height.load <= found_.bound;
  }

  void keep(FoundOrder order) {
    Candidate candidate = candidate_of(task_.model, std::move(order));
    task_.tell.order(candidate.order.name, candidate.height.load);
    if (candidate.height < candidates_.front().height) candidates_.insert(candidates_.begin(), std::move(candidate));
  }

  void improve(const Candidate& start, const Blocks& blocks) {
    FoundOrder order{start.order.name + "+windows", start.order.ops};
    try {
      Improving(task_.model, blocks, task_.deadline, work_left_, task_.tell).improve(order.name, order.ops);
    } catch (const EndedError&) {
      keep(std::move(order));
      throw;
    }
    keep(std::move(order));
  }

  const OrderTask& task_;
  std::int64_t work_left_;
  FoundOrders found_;
  std::vector<Candidate> candidates_;  // the best one first
};

}  // namespace

FoundOrders best_orders(const OrderTask& task) { return OrderPortfolio(task).run(); }

}  // namespace memplan
