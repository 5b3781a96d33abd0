#include "memplan/solve.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "memplan/bounds.hpp"
#include "memplan/registry.hpp"
#include "memplan/verify.hpp"
#include "plan/attempt.hpp"

namespace memplan {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void check_options(const PlanOptions& options) {
  if (options.time_limit && !(*options.time_limit > 0))
    throw std::invalid_argument("time_limit must be > 0 seconds, got " + std::to_string(*options.time_limit));
  if (options.threads < 1) throw std::invalid_argument("threads must be >= 1, got " + std::to_string(options.threads));
  if (options.capacity && *options.capacity < 0)
    throw std::invalid_argument("capacity must be >= 0 bytes, got " + std::to_string(*options.capacity));
}

Plan attempt(const Problem& problem, const ChosenPlanner& planner, const PlanOptions& options, Listener& listener) {
  check_options(options);
  PlanOptions settings = options;
  settings.set.insert(settings.set.begin(), planner.set.begin(), planner.set.end());

  const auto start = std::chrono::steady_clock::now();
  const auto judged = [&](Placement placement) {
    return judge(problem, std::move(placement), planner, seconds_since(start));
  };
  bool interrupted = false;
  if (options.stop) settings.stop = [&] { return interrupted = interrupted || options.stop(); };
  std::optional<std::pair<Bytes, double>> found;  // the lowest peak that was told of, and when
  settings.improved = [&](const Improvement& better) {
    options.tell(better);
    if (!found || better.peak < found->first) found = {better.peak, seconds_since(start)};
    if (!listener.wants(better.peak)) return;
    std::vector<Bytes> offsets(better.offsets.begin(), better.offsets.end());
    Plan plan = judged({std::move(offsets), better.winner, better.lower_bound});
    plan.found_after = found->second;
    listener.hear(plan);
  };
  Plan plan = judged(run(planner.planner, problem, settings));
  if (found && found->first == plan.peak) plan.found_after = std::min(found->second, plan.seconds);
  plan.interrupted |= interrupted;
  listener.hear(plan);
  return plan;
}

Plan judge(const Problem& problem, Placement placement, const ChosenPlanner& planner, double seconds) {
  throw_if_any(verify(problem, placement.offsets, kMaxBytes, kListedViolations), planner.planner);
  Plan plan;
  plan.offsets = std::move(placement.offsets);
  plan.peak = peak_of(problem, plan.offsets);
  if (placement.lower_bound > plan.peak)
    throw PlannerError(label(planner.planner) + " claims that no plan peaks below " +
                       std::to_string(placement.lower_bound) + " bytes, and gives one that peaks at " +
                       std::to_string(plan.peak));
  plan.lower_bound = plan.placement_bound = std::max(load(problem), placement.lower_bound);
  plan.optimal = plan.peak == plan.lower_bound;
  plan.pools = placement.pools;
  plan.planner = planner.asked;
  plan.winner = placement.winner.empty() ? planner.asked : placement.winner;
  plan.interrupted = placement.interrupted;
  plan.seconds = plan.found_after = seconds;
  return plan;
}

Plan solve(const Problem& problem, std::string_view planner, const PlanOptions& options, const OnPlan& tell) {
  return solve(problem, choose_planner(planner), options, tell);
}

Plan solve(const Problem& problem, const ChosenPlanner& planner, const PlanOptions& options, const OnPlan& tell) {
  check_options(options);
  if (options.capacity) require_room(problem, *options.capacity);
  Listener listener{tell};
  Plan plan = attempt(problem, planner, options, listener);
  if (options.capacity) require_fit(problem, *options.capacity, plan);
  return plan;
}

}  // namespace memplan
