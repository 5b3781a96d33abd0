#include "memplan/solve_fit.hpp"

#include <chrono>
#include <utility>

#include "base/time_share.hpp"
#include "fit/fit_solver.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"

namespace memplan {

namespace {

constexpr double kPartAsItIs = 0.3;  // of the time

// Tries the graph as it is, and says how much time is left.
TriedAsItIs tried_first(const AsItIs& given, const ChosenPlanner& planner, std::optional<Bytes> capacity,
                        FitOptions& options) {
  const auto begin = options.start.value_or(std::chrono::steady_clock::now());
  FitOptions part = options;
  part.time_limit = share_of(options.time_limit, kPartAsItIs);
  TriedAsItIs tried = try_as_it_is(given, planner, capacity, part);
  share_time(options, options.time_limit, begin);
  return tried;
}

}  // namespace

TriedAsItIs try_as_it_is(const AsItIs& given, const ChosenPlanner& planner, std::optional<Bytes> capacity,
                         const FitOptions& options) {
  const auto begin = options.start.value_or(std::chrono::steady_clock::now());
  PlanOptions plan;
  plan.stop = options.stop;
  TriedAsItIs tried;
  const auto consider = [&](std::optional<Bytes> within) {
    plan.capacity = within;
    share_time(plan, options.time_limit, begin);
    GraphPlan found = solve(*given.graph, planner, given.storage, plan);
    if (!tried.plan || found.plan.peak < tried.plan->found.plan.peak)
      tried.plan = FittedPlan{given.graph, std::move(found), {}, false, 0, 0, 0, true};
  };
  try {
    consider(capacity);
    const Plan& first = tried.plan->found.plan;
    if (capacity && !first.optimal && !first.interrupted) consider(std::nullopt);  // the first that fits may not be all
  } catch (InfeasibleError& error) {
    error.graph = given.graph;
    tried.refused = std::move(error);
  } catch (const UnsupportedError&) {
  } catch (const EndedError&) {
  }
  return tried;
}

FittedPlan solve_fit(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                     const StorageOptions& storage, const FitOptions& options, bool reorder,
                     const ChosenPlanner& planner, const std::optional<AsItIs>& as_it_is) {
  const auto begin = options.start.value_or(std::chrono::steady_clock::now());
  FitOptions rest = options;
  TriedAsItIs tried = tried_first(as_it_is.value_or(AsItIs{graph, storage}), planner, options.capacity, rest);
  if (tried.plan) return std::move(*tried.plan);
  const bool same = !as_it_is || (as_it_is->graph == graph && as_it_is->storage == storage);
  if (!same) tried.refused.reset();
  try {
    return solve_changed(graph, facts, storage, rest, reorder, planner, std::move(tried.refused));
  } catch (const InfeasibleError& error) {
    if (error.proven()) throw;
    share_time(rest, options.time_limit, begin);
    FittedPlan least = solve_changed_least(std::move(graph), facts, storage, rest, reorder, planner);
    if (least.found.plan.peak > options.capacity) throw;
    least.cost_bound = 0;  // it is one of smaller capacities
    return least;
  }
}

FittedPlan solve_fit_least(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                           const StorageOptions& storage, const FitOptions& options, bool reorder,
                           const ChosenPlanner& planner, const std::optional<AsItIs>& as_it_is) {
  FitOptions rest = options;
  TriedAsItIs tried = tried_first(as_it_is.value_or(AsItIs{graph, storage}), planner, std::nullopt, rest);
  return solve_changed_least(std::move(graph), facts, storage, rest, reorder, planner, std::move(tried.plan));
}

}  // namespace memplan
