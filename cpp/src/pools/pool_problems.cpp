#include "pools/pool_problems.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/deadline.hpp"
#include "base/groups.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "placing/placed.hpp"

namespace memplan {

namespace {

// Groups of buffers that lie together.
Groups groups_of(const Problem& problem) {
  Groups groups(at(problem.count()));
  for (const Together& row : problem.together())
    if (groups.find(row.a) != groups.find(row.b)) groups.unite(row.a, row.b, row.distance);
  return groups;
}

// Per buffer, whether a pool takes it and all that it lies together with, at these distances.
std::vector<char> taken_by(const PoolsRequest& request, std::size_t pool) {
  const Problem& problem = request.problem;
  Groups groups = groups_of(problem);
  std::vector<char> refused(at(problem.count()), 0);  // by representative
  for (const Together& row : problem.together())
    if (row.distance % request.pools[pool].alignment != 0) refused[at(groups.find(row.a))] = 1;
  for (Index i = 0; i < problem.count(); ++i)
    if (request.cost_of(i, pool) == kRefused) refused[at(groups.find(i))] = 1;
  for (const PinInPool& pin : request.pins)
    if (pin.pool != pool) refused[at(groups.find(pin.buffer))] = 1;
  std::vector<char> taken(at(problem.count()));
  for (Index i = 0; i < problem.count(); ++i) taken[at(i)] = !refused[at(groups.find(i))];
  return taken;
}

// The names of pools that would take a group, and how many bytes they have.
struct TooSmall {
  std::string names;
  Bytes largest = 0;

  void add(const Pool& pool, bool is_free) {
    names += (names.empty() ? "" : ", ") + quoted(pool.name) + " of " + std::to_string(*pool.capacity) + " bytes";
    if (!is_free) names += ", some of which are pinned or reserved";
    largest = std::max(largest, *pool.capacity);
  }

  [[noreturn]] void refuse(const Problem& problem, Index group, bool is_group) const {
    const std::string name = problem.name(group);
    InfeasibleError error("buffer " + quoted(name) + (is_group ? ", with what lies together with it," : "") + " of " +
                          std::to_string(problem.size(group)) +
                          " bytes fits in none of the pools that take it: " + names);
    error.capacity = largest;
    error.lower_bound = saturated_add(largest, 1);
    error.step = problem.first(group);
    error.alive = {name};
    throw error;
  }
};

}  // namespace

PoolProblems::PoolProblems(const PoolsRequest& request) {
  for (std::size_t p = 0; p < request.pools.size(); ++p) {
    folds_.emplace_back(problem_in(request, p));
    capacity_.push_back(request.pools[p].capacity);
  }
  add_costs(request);
  refuse_what_has_no_room(request);
}

// What a group costs is what its buffers do.
void PoolProblems::add_costs(const PoolsRequest& request) {
  cost_.assign(at(count()) * pools(), 0);
  for (std::size_t p = 0; p < pools(); ++p) {
    const std::vector<char> taken = taken_by(request, p);
    for (Index i = 0; i < request.problem.count(); ++i) {
      std::int64_t& cost = cost_[at(folds_[p].whole_of(i)) * pools() + p];
      cost = taken[at(i)] ? cost + request.cost_of(i, p) : kRefused;
    }
  }
  for (Index i = 0; i < request.problem.count(); ++i) {
    const Index group = folds_.front().whole_of(i);
    bool taken = false;
    for (std::size_t p = 0; p < pools(); ++p) taken |= cost_of(group, p) != kRefused;
    if (!taken)
      throw ProblemError("no pool takes buffer " + quoted(request.problem.name(i)) +
                         (request.problem.together().empty() ? "" : " and what lies together with it"));
  }
}

void PoolProblems::refuse_what_has_no_room(const PoolsRequest& request) {
  const PlanOptions endless;
  const Deadline deadline(endless);
  std::vector<TooSmall> small(at(count()));
  for (std::size_t p = 0; p < pools(); ++p) {
    if (!capacity_[p]) continue;
    const Problem& problem = in(p);
    const bool is_free = !problem.has_pins() && problem.reserved().empty();
    Placed placed(problem, deadline);
    for (Index i = 0; i < count(); ++i) {
      std::int64_t& cost = cost_[at(i) * pools() + p];
      if (cost == kRefused) continue;
      Bytes lowest = std::max<Bytes>(problem.pin(i), 0);
      if (!is_free && problem.pin(i) == kNowhere && problem.size(i) > 0)
        lowest = lowest_fit(placed.room(i), problem.alignment(i));
      if (lowest <= *capacity_[p] - problem.size(i)) continue;
      cost = kRefused;
      small[at(i)].add(request.pools[p], is_free);
    }
  }
  for (Index i = 0; i < count(); ++i) {
    bool fits = false;
    for (std::size_t p = 0; p < pools(); ++p) fits |= cost_of(i, p) != kRefused;
    if (!fits) small[at(i)].refuse(in(0), i, count() < request.problem.count());
  }
}

Problem problem_in(const PoolsRequest& request, std::size_t pool) {
  const Pool& spec = request.pools[pool];
  const Problem& problem = request.problem;
  if (spec.alignment == 1 && spec.reserved.empty() && request.pins.empty()) return problem;
  std::vector<Bytes> alignment(problem.alignment().begin(), problem.alignment().end());
  const std::vector<char> taken = taken_by(request, pool);
  for (std::size_t i = 0; i < alignment.size(); ++i)
    if (taken[i]) alignment[i] = std::lcm(alignment[i], spec.alignment);
  std::vector<Bytes> pins(alignment.size(), kNowhere);
  for (const PinInPool& pin : request.pins)
    if (pin.pool == pool) pins[at(pin.buffer)] = pin.offset;
  try {
    Problem::Columns columns = problem.columns();
    columns.alignment = std::move(alignment);
    return problem.with_pins({}).with_columns(std::move(columns)).with_pins(std::move(pins), spec.reserved);
  } catch (const ProblemError& error) {
    throw ProblemError("pool " + quoted(spec.name) + ": " + error.what());
  }
}

}  // namespace memplan
