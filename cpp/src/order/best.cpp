// best: the portfolio. The given order and all lists; the best three of them are made better.
#include <algorithm>
#include <utility>

#include "memplan/errors.hpp"
#include "order/improving.hpp"
#include "order/lists.hpp"
#include "order/rules.hpp"

namespace memplan {

namespace {

constexpr std::size_t kStarts = 3;  // orders that are made better

struct Candidate {
  FoundOrder order;
  Height height;
};

class Portfolio {
 public:
  explicit Portfolio(const OrderTask& task) : task_(task), work_left_(value_in(task.set, kOrderWork[0])) {}

  FoundOrders run() {
    FoundOrders found;
    consider({"given", as_given(task_.model)});
    try {
      for (const ListRule& rule : list_rules()) {
        task_.deadline.check();
        consider({std::string(rule.name), list_order(task_.model, rule)});
      }
      sort();
      for (const Candidate& start : std::vector(candidates_.begin(), candidates_.begin() + count_of_starts()))
        improve(start);
    } catch (const InterruptedError&) {
      found.interrupted = true;
    } catch (const TimeLimitError&) {
    }
    sort();
    for (Candidate& candidate : candidates_) found.best_first.push_back(std::move(candidate.order));
    return found;
  }

 private:
  void consider(FoundOrder order) {
    const Height height = height_of(needs_of(task_.model, order.ops));
    candidates_.push_back({std::move(order), height});
  }

  std::ptrdiff_t count_of_starts() const { return static_cast<std::ptrdiff_t>(std::min(kStarts, candidates_.size())); }

  void sort() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.height < b.height; });
  }

  void improve(const Candidate& start) {
    FoundOrder order{start.order.name + "+windows", start.order.ops};
    const auto keep = [&] {
      if (order.ops != start.order.ops) consider(std::move(order));
    };
    try {
      Improving(task_.model, task_.deadline, work_left_).improve(order.ops);
    } catch (const EndedError&) {
      keep();
      throw;
    }
    keep();
  }

  const OrderTask& task_;
  std::int64_t work_left_;
  std::vector<Candidate> candidates_;
};

}  // namespace

FoundOrders best_orders(const OrderTask& task) { return Portfolio(task).run(); }

}  // namespace memplan
