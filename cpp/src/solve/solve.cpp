#include "memplan/solve.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "memplan/bounds.hpp"
#include "memplan/clique.hpp"
#include "memplan/registry.hpp"
#include "memplan/verify.hpp"
#include "problem/fixed_bound.hpp"
#include "problem/reduction.hpp"
#include "problem/reserved.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

// Whoever has no plan when it is to end says so by name.
Placement run_to_the_end(const PlannerInfo& planner, const Reduction& reduction, const PlanOptions& options) {
  try {
    return run(planner, reduction, options);
  } catch (const TimeLimitError&) {
    std::ostringstream limit;
    limit << *options.time_limit;
    throw TimeLimitError(label(planner) + " did not end within its time limit of " + limit.str() +
                         " s, and has no plan before it ends; planners that search, such as 'auto', keep their best");
  } catch (const InterruptedError&) {
    throw InterruptedError(label(planner) + " was interrupted, and has no plan before it ends");
  }
}

// Of a member of a clique, the bytes that are in use at some step.
Bytes used_by(const Problem& problem, const CliqueMember& member) {
  std::vector<std::pair<Bytes, Bytes>> parts;
  problem.for_each_part(member.buffer, [&](const Part& part) {
    parts.emplace_back(std::max(part.begin, member.begin), std::min(part.end, member.end));
  });
  std::sort(parts.begin(), parts.end());
  Bytes used = 0, seen = 0;
  for (const auto& [begin, end] : parts) {
    used += std::max<Bytes>(end - std::max(begin, seen), 0);
    seen = std::max(seen, end);
  }
  return used;
}

// The lowest address below which a clique lies, beside what is reserved as long as any of its members lives.
Bytes end_of(const Problem& problem, const Clique& clique) {
  if (problem.reserved().empty() || clique.members.empty()) return clique.bytes;
  Step first = std::numeric_limits<Step>::max(), last = std::numeric_limits<Step>::min();
  Bytes used = 0;
  for (const CliqueMember& member : clique.members) {
    first = std::min(first, problem.first(member.buffer));
    last = std::max(last, problem.last(member.buffer));
    used += used_by(problem, member);
  }
  return std::max(clique.bytes, end_beside(throughout(problem.reserved(), first, last), used));
}

// What no plan of a problem peaks below; the reduced one has no branches and groups.
Bytes bound_of(const Problem& asked, const Reduction& reduction, const PlanOptions& options) {
  const Problem& problem = reduction.problem();
  const Bytes fixed = std::max(fixed_bound(problem), aligned_load(asked));
  if (problem.conflicts() == nullptr && !problem.has_shapes()) return std::max(fixed, load(problem));
  constexpr double kShare = 1.0 / 8;                // of the time
  constexpr std::int64_t kWork = kCliqueWork / 10;  // every planner waits for it
  PlanOptions part;
  part.stop = options.stop;
  part.time_limit = share_of(options.time_limit, kShare);
  return std::max(fixed, end_of(problem, heaviest_clique(problem, part, kWork)));
}

// Where the buffers of a problem begin by these names; kNowhere for those that are not among them.
std::vector<Bytes> offsets_in(const Problem& problem, const std::unordered_map<std::string, Bytes>& by_name) {
  std::vector<Bytes> offsets(at(problem.count()), kNowhere);
  for (Index i = 0; i < problem.count(); ++i)
    if (const auto found = by_name.find(problem.name(i)); found != by_name.end()) offsets[at(i)] = found->second;
  return offsets;
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

  if (options.earlier != nullptr) settings.warm = offsets_in(problem, *options.earlier);

  const auto start = std::chrono::steady_clock::now();
  settings.start = start;
  bool interrupted = false;
  if (options.stop) settings.stop = [&] { return interrupted = interrupted || options.stop(); };
  // What the problem asks is reduced once, for the bound and for the planner; the judge looks at it as given.
  require_support(planner.planner, problem, settings);
  const Reduction reduction(problem, Reduction::LowBytes::kKept);
  if (settings.lower_bound == 0) settings.lower_bound = bound_of(problem, reduction, settings);
  const Judge judge(problem, planner, settings.lower_bound);
  const auto judged = [&](Placement placement) { return judge.plan_of(std::move(placement), seconds_since(start)); };
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
  Plan plan = judged(run_to_the_end(planner.planner, reduction, settings));
  if (found && found->first == plan.peak) plan.found_after = std::min(found->second, plan.seconds);
  plan.interrupted |= interrupted;
  listener.hear(plan);
  return plan;
}

Bytes bound_of(const Problem& problem, const PlanOptions& options) {
  return bound_of(problem, Reduction(problem, Reduction::LowBytes::kKept), options);
}

Judge::Judge(const Problem& problem, const ChosenPlanner& planner, Bytes lower_bound)
    : problem_(problem), planner_(planner), verifier_(problem), lower_bound_(lower_bound) {}

Plan Judge::plan_of(Placement placement, double seconds) const {
  throw_if_any(verifier_.violations(placement.offsets, kMaxBytes, kListedViolations), planner_.planner);
  Plan plan;
  plan.offsets = std::move(placement.offsets);
  plan.peak = peak_of(problem_, plan.offsets);
  if (placement.lower_bound > plan.peak)
    throw PlannerError(label(planner_.planner) + " claims that no plan peaks below " +
                       std::to_string(placement.lower_bound) + " bytes, and gives one that peaks at " +
                       std::to_string(plan.peak));
  plan.lower_bound = plan.placement_bound = std::max(lower_bound_, placement.lower_bound);
  plan.optimal = plan.peak == plan.lower_bound;
  plan.objects = placement.objects;
  plan.searched = placement.searched;
  plan.planner = planner_.asked;
  plan.winner = placement.winner.empty() ? planner_.asked : placement.winner;
  plan.interrupted = placement.interrupted;
  plan.seconds = plan.found_after = seconds;
  return plan;
}

Plan solve(const Problem& problem, std::string_view planner, const PlanOptions& options, const OnPlan& tell) {
  return solve(problem, choose_planner(planner), options, tell);
}

Plan solve(const Problem& problem, const ChosenPlanner& planner, const PlanOptions& options, const OnPlan& tell) {
  check_options(options);
  PlanOptions settings = options;
  if (options.capacity) settings.lower_bound = bound_of(problem, options);
  if (options.capacity && settings.lower_bound > *options.capacity)
    throw infeasible(problem, *options.capacity, settings.lower_bound);
  Listener listener{tell};
  Plan plan = attempt(problem, planner, settings, listener);
  if (options.capacity) require_fit(problem, *options.capacity, plan);
  return plan;
}

}  // namespace memplan
