#include "pricing/cores.hpp"

#include <algorithm>
#include <numeric>

#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/solve.hpp"
#include "pricing/cheapest_set.hpp"

namespace memplan {

namespace {

constexpr std::string_view kPlanner = "auto:effort=2000000";

}  // namespace

Cores::Cores(const Problem& problem, std::span<const PairPrice> pairs, int tries, std::function<bool()> stop,
             OnPlan found)
    : problem_(problem), pairs_(pairs), tries_(tries), stop_(std::move(stop)), found_(std::move(found)) {
  for (const PairPrice& pair : pairs) price_.push_back(pair.price);
}

std::int64_t Cores::bound_of_price(Bytes capacity, const std::int64_t& price, const Deadline& deadline) {
  for (std::int64_t bound = 0;;) {
    const CheapestSet set = cheapest_set(cores_, price_);
    bound = std::max(bound, set.bound);
    if (bound >= price) return price;
    const Found found = plan(set.taken, capacity, deadline);
    if (found.bound > capacity) {
      if (!add_core(set.taken, capacity, deadline)) return price;
    } else if (!found.plan || bound < found.price) {
      return std::min(bound, price);
    }
  }
}

Bytes Cores::bound_of_peak(std::int64_t price, const Bytes& peak, Bytes known, const Deadline& deadline) {
  while (peak > known) {
    const CheapestSet set = cheapest_set(cores_, price_);
    if (set.bound > price) return peak;
    std::int64_t paid = 0;
    for (std::size_t k = 0; k < price_.size(); ++k) paid += set.taken[k] != 0 ? price_[k] : 0;
    if (paid > price) return known;
    const Found found = plan(set.taken, std::nullopt, deadline);
    if (found.bound < peak) return known;
    if (!add_core(set.taken, peak - 1, deadline)) return peak;
  }
  return known;
}

// Of the pairs that do not share, few of which one has to; the cheapest are left out first. False where there are none.
bool Cores::add_core(std::span<const char> may_share, Bytes capacity, const Deadline& deadline) {
  std::vector<std::size_t> order(price_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return price_[a] < price_[b]; });
  std::vector<char> others(may_share.begin(), may_share.end());  // that are not in the core
  for (const std::size_t k : order) {
    if (others[k] != 0) continue;
    others[k] = 1;
    if (plan(others, capacity, deadline).bound <= capacity) others[k] = 0;
  }
  std::vector<std::size_t> core;
  for (std::size_t k = 0; k < others.size(); ++k)
    if (others[k] == 0) core.push_back(k);
  if (core.empty()) return false;
  cores_.push_back(std::move(core));
  return true;
}

// A plan within the capacity in which of all pairs with a price only these may share.
Cores::Found Cores::plan(std::span<const char> may_share, std::optional<Bytes> capacity, const Deadline& deadline) {
  if (--tries_ < 0 || deadline.passed()) return {};
  PlanOptions options;
  options.time_limit = deadline.left();
  options.stop = stop_;
  options.capacity = capacity;
  try {
    Conflicts conflicts = problem_.conflicts() == nullptr ? Conflicts(problem_.count()) : *problem_.conflicts();
    for (std::size_t k = 0; k < pairs_.size(); ++k)
      if (may_share[k] == 0) conflicts.add(pairs_[k].a, pairs_[k].b);
    const Problem apart = problem_.with_conflicts(std::move(conflicts));
    Plan plan = solve(apart, kPlanner, options);
    const Found found{true, plan.lower_bound, price_of(problem_, pairs_, plan.offsets)};
    found_(std::move(plan.offsets));
    return found;
  } catch (const ProblemError&) {  // what is pinned or lies together makes a pair share
    return {false, kMaxBytes};
  } catch (const InfeasibleError& error) {
    return {false, error.lower_bound};
  }
}

}  // namespace memplan
