// Prices of pairs: free offsets and what they cost, against trying all of them; the cheapest sets, against all sets;
// and bounds of groups, against what plans pay.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/pricing.hpp"
#include "memplan/solve.hpp"
#include "memplan/verify.hpp"
#include "pricing/cheapest_set.hpp"
#include "pricing/cores.hpp"
#include "pricing/group_bound.hpp"
#include "pricing/open_pairs.hpp"
#include "pricing/pair_ranges.hpp"
#include "pricing/priced_layout.hpp"

using namespace memplan;

namespace {

std::size_t below(std::mt19937_64& generator, std::size_t bound) { return generator() % bound; }

// Few buffers of few bytes, some with shapes, conflicts and reserved bytes.
Problem small_problem(std::mt19937_64& generator, std::size_t count, bool plain) {
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < count; ++i) {
    size.push_back(static_cast<Bytes>(below(generator, 7) + (plain ? 1 : 0)));
    first.push_back(static_cast<Step>(below(generator, 8)) - 3);
    last.push_back(first.back() + 1 + static_cast<Step>(below(generator, 5)));
    alignment.push_back(plain ? 1 : Bytes{1} << below(generator, 3));
    const auto buffer = static_cast<Index>(i);
    if (!plain && size[i] > 1 && last[i] - first[i] > 1 && below(generator, 3) == 0) {
      parts.push_back({buffer, 0, 1, first[i], first[i] + 1});
      parts.push_back({buffer, 1, size[i], first[i], last[i]});
    }
  }
  Problem problem(size, first, last, alignment);
  if (plain) return problem;
  if (!parts.empty()) problem = problem.with_shapes(parts);
  if (below(generator, 2) == 0) {
    Conflicts conflicts(problem.count());
    conflicts.add(0, 1);
    problem = problem.with_conflicts(conflicts);
  }
  if (below(generator, 2) == 0) problem = problem.with_pins({}, {{3, 5, 0, 2}});
  return problem;
}

std::vector<PairPrice> random_prices(std::mt19937_64& generator, Index count) {
  std::vector<PairPrice> prices;
  for (Index a = 0; a < count; ++a)
    for (Index b = 0; b < a; ++b)
      if (below(generator, 3) > 0) prices.push_back({a, b, static_cast<std::int64_t>(below(generator, 9) + 1)});
  return prices;
}

// One buffer of a plan is taken out: where it may lie, and what it pays there.
void check_free_offsets(std::mt19937_64& generator) {
  const Problem problem = small_problem(generator, 6, false);
  const OpenPairs open = open_pairs(problem, nullptr, random_prices(generator, problem.count()));
  std::vector<Bytes> offsets = solve(problem, "greedy_by_size").offsets;
  PairRanges ranges(problem, open.flat);
  PricedLayout layout(problem, ranges, offsets);
  const auto i = static_cast<Index>(below(generator, 6));
  if (problem.size(i) == 0) return;
  const Bytes capacity = peak_of(problem, offsets) + static_cast<Bytes>(below(generator, 6));
  const std::int64_t before = price_of(problem, open.pairs, offsets) - layout.paid_by(i);
  layout.take(i);
  std::map<Bytes, std::int64_t> price;  // of all that are free
  for (offsets[at(i)] = 0; offsets[at(i)] + problem.size(i) <= capacity; ++offsets[at(i)])
    if (verify(problem, offsets, capacity).empty())
      price[offsets[at(i)]] = price_of(problem, open.pairs, offsets) - before;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), found = least;
  for (const auto& [offset, paid] : price) least = std::min(least, paid);
  Bytes lowest = kNowhere;
  for (const PricedOffset& place : layout.free(i, capacity)) {
    CHECK(price.contains(place.offset) && price.at(place.offset) == place.price);
    if (place.price < found) lowest = place.offset;
    found = std::min(found, place.price);
  }
  CHECK(found == least);
  const auto first = std::ranges::find_if(price, [&](const auto& row) { return row.second == least; });
  CHECK(first == price.end() || first->first == lowest);
}

void check_cheapest_set(std::mt19937_64& generator) {
  constexpr std::size_t kThings = 7;
  std::vector<std::int64_t> price;
  for (std::size_t k = 0; k < kThings; ++k) price.push_back(static_cast<std::int64_t>(below(generator, 9) + 1));
  std::vector<std::vector<std::size_t>> cores(below(generator, 6));
  for (auto& core : cores) {
    for (std::size_t k = 0; k < kThings; ++k)
      if (below(generator, 3) == 0) core.push_back(k);
    if (core.empty()) core.push_back(below(generator, kThings));
  }
  const auto hits = [&](auto&& has) {
    return std::ranges::all_of(cores, [&](const auto& core) { return std::ranges::any_of(core, has); });
  };
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t set = 0; set < std::size_t{1} << kThings; ++set) {
    std::int64_t paid = 0;
    for (std::size_t k = 0; k < kThings; ++k) paid += (set >> k & 1) != 0 ? price[k] : 0;
    if (hits([&](std::size_t k) { return (set >> k & 1) != 0; })) least = std::min(least, paid);
  }
  const CheapestSet found = cheapest_set(cores, price);
  std::int64_t paid = 0;
  for (std::size_t k = 0; k < kThings; ++k) paid += found.taken[k] != 0 ? price[k] : 0;
  CHECK(found.bound == least && paid == least);
  CHECK(hits([&](std::size_t k) { return found.taken[k] != 0; }));
}

// No plan pays less than the bound; true where that is above 0.
bool check_bound(std::mt19937_64& generator) {
  const Problem problem = small_problem(generator, 4 + below(generator, 5), true);
  const std::vector<PairPrice> prices = random_prices(generator, problem.count());
  PlanOptions options;
  const Plan start = solve(problem);
  options.capacity = start.peak + static_cast<Bytes>(below(generator, 3));
  options.lower_bound = start.lower_bound;
  const PricedPlan plan = cheapest_sharing(problem, prices, start.offsets, options);
  CHECK(plan.price == price_of(problem, prices, plan.offsets));
  CHECK(plan.price_bound <= plan.price && plan.price <= price_of(problem, prices, start.offsets));
  const OpenPairs open = open_pairs(problem, nullptr, prices);
  const std::int64_t bound =
      bound_by_groups(problem, open.pairs, *options.capacity, std::numeric_limits<std::int64_t>::max() / 2, 0, {});
  CHECK(open.paid_anyway == 0 && bound <= plan.price);
  return bound > 0;
}

// What plans of at most this price peak at, tried for each set of pairs that may share; the bound of the peak is not
// above that, whatever the best plan that it is told.
void check_bound_of_peak(std::mt19937_64& generator) {
  const Problem problem = small_problem(generator, 4, true);
  std::vector<PairPrice> prices = random_prices(generator, problem.count());
  const OpenPairs open = open_pairs(problem, nullptr, prices);
  const std::size_t count = open.pairs.size();
  std::map<std::int64_t, Bytes> lowest;  // by price
  for (std::size_t set = 0; set < std::size_t{1} << count; ++set) {
    Conflicts conflicts(problem.count());
    std::int64_t price = 0;
    for (std::size_t k = 0; k < count; ++k) {
      if ((set >> k & 1) != 0)
        price += open.pairs[k].price;
      else
        conflicts.add(open.pairs[k].a, open.pairs[k].b);
    }
    const Plan plan = solve(problem.with_conflicts(std::move(conflicts)));
    CHECK(plan.peak == plan.lower_bound);
    const auto [entry, is_new] = lowest.try_emplace(price, plan.peak);
    entry->second = std::min(entry->second, plan.peak);
  }
  Bytes least = std::numeric_limits<Bytes>::max();
  for (const auto& [price, peak] : lowest) {
    if (peak >= least) continue;  // less is paid for such a peak
    least = peak;
    const Bytes known = load(problem);
    for (const Bytes told : {least, least + 3}) {
      Cores cores(problem, open.pairs, 100, {}, [](std::vector<Bytes>) {});
      CHECK(cores.bound_of_peak(price, told, known, {}) <= least);
    }
  }
}

// Three of four bytes, one after another, in eight: two share; the cheapest pair is the optimum and the bound.
void check_groups() {
  const Problem problem({4, 4, 4}, {0, 1, 2}, {1, 2, 3});
  const std::vector<PairPrice> prices{{0, 1, 5}, {1, 2, 3}, {0, 2, 2}};
  CHECK(bound_by_groups(problem, prices, 8, 100, 0, {}) == 2);
  CHECK(bound_by_groups(problem, prices, 11, 100, 0, {}) == 1);  // a byte may be a fraction of a pair
  CHECK(bound_by_groups(problem, prices, 12, 100, 0, {}) == 0);
  CHECK(bound_by_groups(problem, prices, 4, 100, 0, {}) == 5);
  // Pairs of two groups: their bounds add up.
  const Problem twice({4, 4, 4, 4, 4, 4}, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6});
  const std::vector<PairPrice> both{{0, 1, 5}, {1, 2, 3}, {0, 2, 2}, {3, 4, 5}, {4, 5, 3}, {3, 5, 2}};
  CHECK(bound_by_groups(twice, both, 8, 100, 0, {}) == 4);
}

void check_bad_input() {
  const Problem problem({4, 4}, {0, 1}, {1, 2});
  const std::vector<Bytes> start{0, 0};
  const auto priced = [&](std::vector<PairPrice> prices) { return cheapest_sharing(problem, prices, start); };
  THROWS(priced({{0, 2, 1}}), ProblemError, "price[0] must name buffers below 2, got 2");
  THROWS(priced({{0, 0, 1}}), ProblemError, "price[0] must name two buffers, got '#0' twice");
  THROWS(priced({{0, 1, -1}}), ProblemError, "price[0] price must be >= 0, got -1");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  THROWS(priced({{0, 1, most}, {0, 1, 1}}), ProblemError, "less than 2^63, exceeded at price[1]");
  const Problem together({4, 4}, {0, 0}, {1, 1});
  THROWS(cheapest_sharing(together, {}, start), InvalidPlanError, "the plan at a price is invalid");
}

}  // namespace

int main() {
  std::mt19937_64 generator(0);
  for (int k = 0; k < 3000; ++k) check_free_offsets(generator);
  for (int k = 0; k < 300; ++k) check_cheapest_set(generator);
  int above_nothing = 0;
  for (int k = 0; k < 60; ++k) above_nothing += check_bound(generator);
  CHECK(above_nothing > 15);
  for (int k = 0; k < 60; ++k) check_bound_of_peak(generator);
  check_groups();
  check_bad_input();
  return check::finish();
}
