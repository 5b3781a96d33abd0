#include "fit/fit_solver.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/time_share.hpp"
#include "fit/fitter.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/order.hpp"

namespace memplan {

namespace {

constexpr int kMostTargets = 6;     // loads that are asked for, until the plan fits too
constexpr double kAfterStop = 0.1;  // seconds, to end with what there is
constexpr double kPartOfBestOrder = 1.0 / 3;

class FitSolver {
 public:
  FitSolver(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
            const FitOptions& options, const ChosenPlanner& planner)
      : begin_(options.start.value_or(Clock::now())),
        storage_(storage),
        options_(options),
        planner_(planner),
        orders_{{std::move(graph), facts}} {
    if (options_.stop)
      options_.stop = [this, stop = options.stop] {
        if (!stopped_ && stop()) stopped_ = Clock::now();
        return stopped_.has_value();
      };
  }

  // Lets the ops run in the order of the least load that is found, too.
  void add_best_order() {
    OrderOptions options;
    limit(options, kPartOfBestOrder);
    options.stop = options_.stop;
    const OpOrder best = best_order(*orders_[0].graph, storage_, options);
    if (best.found_by == "given") return;
    std::vector<OpFacts> facts;
    for (const Index k : best.ops) facts.push_back(orders_[0].facts[at(k)]);
    orders_.push_back({std::make_shared<const Graph>(reordered(*orders_[0].graph, best.ops)), std::move(facts)});
  }

  // `refused`: why the plan of this very graph was, if it was tried.
  FittedPlan within(std::optional<InfeasibleError> refused) {
    Bytes target = options_.capacity;
    const Bytes load = load_in(*orders_[0].graph, storage_);
    if (refused && refused->plan && load <= target) {
      target = next_load(target, load, options_.capacity, *refused);
      refused = of_one_schedule(*refused, 0);
    } else {
      refused.reset();
    }
    for (int asked = 0; asked < kMostTargets; ++asked) {
      Candidate fitted = cheapest(target, refused);
      try {
        return plan_of(fitted, planned(fitted, options_.capacity));
      } catch (InfeasibleError& error) {
        refused = of_one_schedule(error, fitted.rest.load_bound);
        if (stopped_) throw InterruptedError("asked to end");
        if (target == 0) break;
        target = next_load(target, fitted.rest.load, options_.capacity, error);
      }
    }
    throw *refused;
  }

  // `best`: the plan of the graph as it is.
  FittedPlan least(std::optional<FittedPlan> best) {
    std::vector<Candidate> fitted;
    for (std::size_t order = 0; order < orders_.size(); ++order)
      fitted.push_back(made(order, [&](const Order& one, const FitOptions& options) {
        return fit_least(*one.graph, one.facts, storage_, options);
      }));
    if (best) best->load_bound = std::min(fitted.front().rest.load_bound, best->found.plan.lower_bound);
    std::stable_sort(fitted.begin(), fitted.end(),
                     [](const Candidate& a, const Candidate& b) { return a.rest.load < b.rest.load; });
    for (const Candidate& one : fitted) {
      if (best && one.rest.load >= best->found.plan.peak) continue;
      FittedPlan plan = plan_of(one, lowest(one));
      if (!best || plan.found.plan.peak < best->found.plan.peak) best = std::move(plan);
    }
    best->found.plan.interrupted |= stopped_.has_value();
    return std::move(*best);
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Order {
    std::shared_ptr<const Graph> graph;
    std::vector<OpFacts> facts;
  };

  // What was fitted in an order.
  struct Candidate {
    std::size_t order;
    std::shared_ptr<const Graph> graph;
    struct {
      std::vector<Change> changes;
      Bytes load;
      double added_cost, cost_bound;
      Bytes load_bound;
    } rest;
  };

  // To this share of what is left of the limit; once interrupted, of just enough to end.
  void limit(Limits& part, double share = 1) const {
    if (stopped_)
      share_time(part, kAfterStop, *stopped_, share);
    else
      share_time(part, options_.time_limit, begin_, share);
  }

  // The other orders need time too, and so does the plan.
  template <class Fit>
  Candidate made(std::size_t order, Fit&& fit) {
    FitOptions options = options_;
    limit(options, 1 / (static_cast<double>(orders_.size() - order) + 0.5));
    Fitted fitted = fit(orders_[order], options);
    return {order,
            std::make_shared<const Graph>(std::move(fitted.graph)),
            {std::move(fitted.changes), fitted.load, fitted.added_cost, fitted.cost_bound, fitted.load_bound}};
  }

  // In the order that adds the least. `before` is why a higher load was not enough.
  Candidate cheapest(Bytes capacity, const std::optional<InfeasibleError>& before) {
    std::optional<Candidate> best;
    std::optional<InfeasibleError> refused;
    for (std::size_t order = 0; order < orders_.size(); ++order) {
      try {
        Candidate found = made(order, [&](const Order& one, FitOptions options) {
          options.capacity = capacity;
          return fit(*one.graph, one.facts, storage_, options);
        });
        if (!best || found.rest.added_cost < best->rest.added_cost) best = std::move(found);
        if (best->rest.added_cost == 0) break;
      } catch (const InfeasibleError& error) {
        if (!refused || error.lower_bound < refused->lower_bound) refused = error;
      }
    }
    if (best) return std::move(*best);
    const InfeasibleError& why = before ? *before : *refused;
    if (stopped_ && !why.proven()) throw InterruptedError("asked to end");  // whoever interrupts this has no plan
    throw why;
  }

  // What is proven of the plans of one schedule is not so of others.
  static InfeasibleError of_one_schedule(const InfeasibleError& refused, Bytes load_bound) {
    if (!refused.proven()) return refused;
    InfeasibleError error("no plan was found within " + std::to_string(refused.capacity) +
                          " bytes: what was made to fit needs at least " + std::to_string(refused.lower_bound) +
                          " bytes where its buffers lie");
    error.capacity = refused.capacity;
    error.lower_bound = load_bound;
    error.plan = refused.plan;
    error.buffers = refused.buffers;
    error.graph = refused.graph;
    return error;
  }

  GraphPlan planned(const Candidate& fitted, std::optional<Bytes> capacity) {
    PlanOptions options;
    options.capacity = capacity;
    limit(options);
    if (!stopped_) options.stop = options_.stop;
    try {
      return solve(*fitted.graph, planner_, storage_, options);
    } catch (InfeasibleError& error) {
      error.graph = fitted.graph;
      throw;
    }
  }

  // A plan at the load, or as little above it as is found.
  GraphPlan lowest(const Candidate& fitted) {
    try {
      return planned(fitted, fitted.rest.load);
    } catch (InfeasibleError& error) {
      if (error.plan) return {std::move(*error.buffers), std::move(*error.plan)};
    }
    return planned(fitted, std::nullopt);
  }

  FittedPlan plan_of(const Candidate& fitted, GraphPlan found) const {
    found.plan.interrupted |= stopped_.has_value();
    const auto& rest = fitted.rest;
    return {fitted.graph,    std::move(found), rest.changes,   fitted.order > 0,
            rest.added_cost, rest.cost_bound,  rest.load_bound};
  }

  const Clock::time_point begin_;
  const StorageOptions& storage_;
  FitOptions options_;
  const ChosenPlanner& planner_;
  std::vector<Order> orders_;  // the given one first
  std::optional<Clock::time_point> stopped_;
};

}  // namespace

Bytes next_load(Bytes asked, Bytes load, Bytes capacity, const InfeasibleError& refused) {
  const Bytes missing = std::max<Bytes>(1, (refused.plan ? refused.plan->peak : refused.lower_bound) - capacity);
  const Bytes from = asked - missing >= load ? load : asked;
  return from - std::min(from, missing);
}

FittedPlan solve_changed(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                         const StorageOptions& storage, const FitOptions& options, bool reorder,
                         const ChosenPlanner& planner, std::optional<InfeasibleError> refused) {
  FitSolver solver(std::move(graph), facts, storage, options, planner);
  if (reorder) solver.add_best_order();
  return solver.within(std::move(refused));
}

FittedPlan solve_changed_least(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                               const StorageOptions& storage, const FitOptions& options, bool reorder,
                               const ChosenPlanner& planner, std::optional<FittedPlan> as_it_is) {
  FitSolver solver(std::move(graph), facts, storage, options, planner);
  if (reorder) solver.add_best_order();
  return solver.least(std::move(as_it_is));
}

}  // namespace memplan
