#include "memplan/solve_order.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "memplan/errors.hpp"
#include "memplan/order_bound.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

constexpr double kPartOfSearch = 0.25;  // of a time limit
constexpr double kPartOfFound = 0.5;    // of what the search leaves
constexpr double kFormsPerPlan = 4;     // a plan takes as long as forming its buffers so often, at least

// That no plan fits in the best order, as an error of all orders: its bound is that of them all.
InfeasibleError in_any_order(const InfeasibleError& refused, const OpOrder& order) {
  const std::string fits =
      "fits a capacity of " + std::to_string(refused.capacity) + " bytes in any order of the ops: ";
  const std::string least = "at least " + std::to_string(order.bound);
  const Bytes needs = refused.plan ? refused.plan->peak : order.load;
  const std::string what = order.bound > refused.capacity
                               ? "no plan " + fits + least + " bytes are needed"
                               : "no plan was found that " + fits + "the best order found needs " +
                                     std::to_string(needs) + "; " + least + " are needed";
  const std::string message = refused.what();
  const std::size_t line = message.find('\n');
  InfeasibleError error(what + (line == std::string::npos ? "" : message.substr(line)));
  error.capacity = refused.capacity;
  error.lower_bound = order.bound;
  error.plan = refused.plan;
  error.buffers = refused.buffers;
  error.step = refused.step;
  error.alive = refused.alive;
  error.clique = refused.clique;
  error.graph = refused.graph;
  return error;
}

class OrderedSolver {
 public:
  OrderedSolver(std::shared_ptr<const Graph> graph, const ChosenOrder& chosen, const ChosenPlanner& planner,
                const StorageOptions& storage, const PlanOptions& options, const OnOrderedPlan& tell,
                const OnOrder& on_order)
      : graph_(std::move(graph)),
        chosen_(chosen),
        planner_(planner),
        storage_(storage),
        options_(options),
        tell_(tell),
        on_order_(on_order) {}

  OrderedPlan run() {
    check_options(options_);
    const bool or_given = chosen_.order.name == "best";
    if (chosen_.order.name != "given") look_for_order(or_given);
    if (!or_given) {
      plan(order_.graph ? order_.graph : graph_, 1);
    } else {
      if (order_.graph && is_time_for_both()) attempt(order_.graph, kPartOfFound);
      if (!best_ || best_->found.plan.peak >= order_.given_load) attempt(graph_, 1);
    }
    if (!best_ && refused_) throw in_any_order(*refused_, order_);
    if (!best_) std::rethrow_exception(ended_);
    best_->bound = order_.bound;
    best_->found.plan.interrupted |= order_.interrupted;
    return std::move(*best_);
  }

 private:
  void look_for_order(bool or_given) {
    OrderOptions options;
    options.time_limit = share_of(options_.time_limit, or_given ? kPartOfSearch : 1);
    options.start = start_;
    options.stop = options_.stop;
    options.on_order = on_order_;
    order_ = order_of(*graph_, chosen_, storage_, options);
    order_.bound = beside_reserved(*graph_, order_.bound);  // what was found is a load, and this of an arena
  }

  bool is_time_for_both() const {
    return !options_.time_limit ||
           *options_.time_limit - seconds_since(start_) > 2 * kFormsPerPlan * order_.seconds_to_form;
  }

  // Plans a graph in a part of the time that is left, and keeps the plan that peaks lowest.
  void plan(const std::shared_ptr<const Graph>& graph, double part) {
    PlanOptions options = options_;
    share_time(options, options_.time_limit, start_, part);
    OnGraphPlan tell;
    if (tell_)
      tell = [&](GraphPlan found) {
        if (found.plan.peak >= told_) return;
        told_ = found.plan.peak;
        tell_(graph, std::move(found));
      };
    try {
      GraphPlan found = solve(*graph, planner_, storage_, options, tell);
      if (!best_ || found.plan.peak < best_->found.plan.peak) best_ = OrderedPlan{graph, std::move(found)};
    } catch (InfeasibleError& error) {
      error.graph = graph;
      throw;
    }
  }

  // The same where another plan may do: what this one throws is kept.
  void attempt(const std::shared_ptr<const Graph>& graph, double part) {
    try {
      plan(graph, part);
    } catch (const InfeasibleError& error) {
      if (!refused_) refused_ = error;
    } catch (const EndedError&) {
      ended_ = std::current_exception();
    }
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::shared_ptr<const Graph> graph_;
  const ChosenOrder& chosen_;
  const ChosenPlanner& planner_;
  const StorageOptions& storage_;
  const PlanOptions& options_;
  const OnOrderedPlan& tell_;
  const OnOrder& on_order_;
  OpOrder order_ = {};
  std::optional<OrderedPlan> best_ = {};
  std::optional<InfeasibleError> refused_ = {};  // the first that does not fit
  std::exception_ptr ended_ = {};                // why a planner that does not search has no plan
  Bytes told_ = kMaxBytes;                       // the lowest peak told of
};

}  // namespace

OrderedPlan solve_in_order(std::shared_ptr<const Graph> graph, const ChosenOrder& order, const ChosenPlanner& planner,
                           const StorageOptions& storage, const PlanOptions& options, const OnOrderedPlan& tell,
                           const OnOrder& on_order) {
  return OrderedSolver(std::move(graph), order, planner, storage, options, tell, on_order).run();
}

}  // namespace memplan
