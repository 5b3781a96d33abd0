#include "pools/plans_of_pools.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "pools/assignment.hpp"
#include "pools/demand.hpp"
#include "pools/pool_placer.hpp"
#include "pools/pool_problems.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kWorkOfSearch = 100'000'000;   // for pools
constexpr std::int64_t kEffortOfPlacing = 1'000'000;  // of "auto", for the buffers of a pool

void check_request(const PoolsRequest& request) {
  const std::size_t pools = request.pools.size();
  if (pools == 0) throw ProblemError("pools must hold at least one pool, got none");
  if (request.cost.size() != at(request.problem.count()) * pools)
    throw ProblemError("cost must have one entry per buffer and pool, got " + std::to_string(request.cost.size()));
  const unsigned fixed = features_of(request.problem) & (kPins | kReserved);
  if (fixed != 0)
    throw ProblemError("the problem has " + listed(feature_names(fixed), [](std::string_view name) { return name; }) +
                       ", which must say in which pool");
  if (features_of(request.problem) & kBranches) throw UnsupportedError("pools do not support branches");
  Bytes sum = 0;
  for (Index i = 0; i < request.problem.count(); ++i) {
    std::int64_t most = kRefused;
    for (std::size_t p = 0; p < pools; ++p) most = std::max(most, request.cost_of(i, p));
    if (most == kRefused) throw ProblemError("no pool takes buffer " + quoted(request.problem.name(i)));
    const auto more = checked_add(sum, most);
    if (!more) throw ProblemError("costs must add up to at most int64; those of the dearest pools do not");
    sum = *more;
  }
}

// The same with another message, which says which pools it is about.
InfeasibleError retold(const InfeasibleError& error, const std::string& text) {
  InfeasibleError told(text);
  told.capacity = error.capacity;
  told.lower_bound = error.lower_bound;
  told.step = error.step;
  told.alive = error.alive;
  return told;
}

std::string pool_names(const PoolsRequest& request, const std::vector<char>& chosen) {
  std::string names;
  for (std::size_t p = 0; p < request.pools.size(); ++p)
    if (chosen[p]) names += (names.empty() ? "" : " and ") + quoted(request.pools[p].name);
  return names;
}

// The pools to which buffers that fit nowhere else are left, by how much they take together.
void require_room(const PoolsRequest& request, const PoolProblems& problems, const std::vector<char>& chosen) {
  std::vector<Index> left;
  Bytes capacity = 0;
  for (std::size_t p = 0; p < chosen.size(); ++p)
    if (chosen[p]) capacity = saturated_add(capacity, *request.pools[p].capacity);
  for (Index i = 0; i < request.problem.count(); ++i) {
    bool elsewhere = false;
    for (std::size_t p = 0; p < chosen.size(); ++p)
      elsewhere |= !chosen[p] && problems.cost_of(problems.fold(0).whole_of(i), p) != kRefused;
    if (!elsewhere) left.push_back(i);
  }
  if (left.empty()) return;
  const Problem problem = request.problem.with_together({}).subset(left);
  const Bytes needed = load(problem);
  if (needed <= capacity) return;
  const InfeasibleError error = infeasible(problem, capacity, needed);
  const std::string names = pool_names(request, chosen);
  throw retold(error, "what no other pool takes does not fit into " + names + ": " + error.what());
}

void require_rooms(const PoolsRequest& request, const PoolProblems& problems) {
  const std::size_t pools = request.pools.size();
  std::vector<char> all(pools, 0);
  for (std::size_t p = 0; p < pools; ++p) {
    if (!request.pools[p].capacity) continue;
    all[p] = 1;
    std::vector<char> one(pools, 0);
    one[p] = 1;
    require_room(request, problems, one);
  }
  require_room(request, problems, all);
}

// Nothing was found, perhaps since there is nothing.
InfeasibleError nothing_found(const PoolsRequest& request, bool proven) {
  Bytes capacity = 0;
  for (const Pool& pool : request.pools) capacity = saturated_add(capacity, pool.capacity.value_or(0));
  std::vector<char> limited;
  for (const Pool& pool : request.pools) limited.push_back(pool.capacity.has_value());
  std::vector<Index> all(at(request.problem.count()));
  std::iota(all.begin(), all.end(), 0);
  const Problem problem = request.problem.with_together({}).subset(all);
  const InfeasibleError error = infeasible(problem, capacity, load(problem));
  const std::string what = error.what();
  InfeasibleError told = retold(error, std::string(proven ? "no plan fits" : "no plan was found that fits") + " into " +
                                           pool_names(request, limited) + ", which have " + std::to_string(capacity) +
                                           " bytes together" + what.substr(std::min(what.find('\n'), what.size())));
  told.lower_bound = proven ? saturated_add(capacity, 1) : std::min(error.lower_bound, capacity);
  return told;
}

std::vector<Index> buffers_in(const std::vector<Index>& pool, std::size_t p) {
  std::vector<Index> buffers;
  for (std::size_t i = 0; i < pool.size(); ++i)
    if (at(pool[i]) == p) buffers.push_back(static_cast<Index>(i));
  return buffers;
}

// The best of what the planner finds for the buffers of a pool, and what the search has found.
Plan plan_of_pool(const PoolsRequest& request, const std::vector<Index>& pool, const std::vector<Bytes>& offset,
                  std::size_t p, const ChosenPlanner& planner, const PlanOptions& options) {
  const std::vector<Index> buffers = buffers_in(pool, p);
  const Problem problem = problem_in_pool(request, buffers, p);
  PlanOptions settings = options;
  settings.capacity = request.pools[p].capacity;  // a lower peak there is of no use
  if (settings.capacity)
    for (const Parameter& parameter : planner.planner.parameters)
      if (parameter.name == "effort" || parameter.name == "work")
        settings.set.emplace_back(parameter.name, kEffortOfPlacing);
  Listener nobody;
  Plan plan = attempt(problem, planner, settings, nobody);
  if (!request.pools[p].capacity || plan.peak <= *request.pools[p].capacity) return plan;
  Placement known;
  for (const Index i : buffers) known.offsets.push_back(offset[at(i)]);
  known.winner = "insertion";
  known.lower_bound = plan.lower_bound;
  Plan kept = Judge(problem, planner, plan.lower_bound).plan_of(std::move(known), plan.seconds);
  kept.interrupted = plan.interrupted;
  return kept;
}

}  // namespace

Problem problem_in_pool(const PoolsRequest& request, const std::vector<Index>& buffers, std::size_t pool) {
  return problem_in(request, pool).subset(buffers);
}

PlansOfPools plans_of_pools(const PoolsRequest& request, const ChosenPlanner& planner, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  check_options(options);
  check_request(request);
  const PoolProblems problems(request);
  require_rooms(request, problems);
  PlanOptions settings = options;
  settings.start = start;
  bool interrupted = false;
  if (options.stop) settings.stop = [&] { return interrupted = interrupted || options.stop(); };
  const Deadline deadline(settings);
  const Demand demand(problems);
  PoolPlacer placer(problems, planner, settings, kEffortOfPlacing, deadline);
  const Assignment found = search_assignment(problems, demand, placer, kWorkOfSearch, deadline);
  if (found.pool.empty()) throw nothing_found(request, found.bound == kNoCost);
  PlansOfPools plan{{}, {}, found.cost, found.bound};
  for (Index i = 0; i < request.problem.count(); ++i) plan.pool.push_back(found.pool[at(problems.fold(0).whole_of(i))]);
  for (std::size_t p = 0; p < problems.pools(); ++p) {
    PlanOptions rest = settings;
    rest.time_limit = deadline.left();
    const std::vector<Bytes> offset = problems.fold(p).unfolded(found.offset);
    plan.plans.push_back(plan_of_pool(request, plan.pool, offset, p, planner, rest));
    interrupted = interrupted || plan.plans.back().interrupted;
  }
  plan.interrupted = interrupted;
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace memplan
