// Pricing: a pair of buffers may share bytes, one after the other, at a price. memplan looks for the least sum of
// prices within a capacity. Among plans with this sum, the lowest peak is best.
//
//     offset ▲ ┌───┐┌───┐   capacity   c has bytes of both a and b, so both
//            │ │ b ││ c │              pairs pay; higher up, only the pair
//            │ ├───┤│   │              of b and c would pay
//            │ │ a │└───┘
//            └─┴───┴──────▶ step
//
// Without a capacity, a pair pays only if pins or distances force it to share bytes. A planner then looks for the
// lowest peak at this price. With a capacity, a search takes a few buffers out of a plan, and puts each back at the
// least cost (pricing/price_search.hpp). A lower bound adds up the prices of groups that are too large to lie apart
// (pricing/group_bound.hpp). If few pairs have a price, implicit hitting sets prove the least price, and the lowest
// peak (pricing/cores.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"

namespace memplan {

// The cost if two buffers share bytes. Several prices of one pair are added.
struct PairPrice {
  Index a = kNone;
  Index b = kNone;
  std::int64_t price = 0;
};

struct PricedPlan {
  std::vector<Bytes> offsets;
  Bytes peak = 0;
  std::int64_t price = 0;
  std::int64_t price_bound = 0;  // every plan within the capacity pays at least so much
  Bytes peak_bound = 0;          // no plan within the capacity that pays at most `price` peaks lower
  bool interrupted = false;      // `stop` ended the search early
  double seconds = 0;
  double found_after = 0;  // seconds until these offsets were found
};

struct PricingEffort {
  int tries = 1000;                // runs of a planner, in which only some pairs may share
  std::int64_t work = 80'000'000;  // of the search without a time limit, in byte ranges
};

using OnPricedPlan = std::function<void(const PricedPlan&)>;

// The sum of prices that a plan pays. O(prices).
std::int64_t price_of(const Problem& problem, std::span<const PairPrice> prices, std::span<const Bytes> offsets);

// The pairs with a price above 0 that share bytes in a plan. Each pair comes once, the smaller index first. Ascending.
std::vector<std::pair<Index, Index>> paying_pairs(const Problem& problem, std::span<const PairPrice> prices,
                                                  std::span<const Bytes> offsets);

// Searches from a plan, which must be within the capacity if there is one. Returns a verified plan that pays no more.
// If it pays the same, it peaks no higher. `tell` is called with each better plan. These options count: time limit,
// start time, seed, capacity, lower bound, and `stop`. The same seed gives the same plan, unless a time limit or
// `stop` ends the search.
//
// Throws ProblemError for an unknown index, a pair of a buffer with itself, a price < 0, and sums of prices beyond
// int64. Throws InvalidPlanError if `start` is no plan of the problem within the capacity.
PricedPlan cheapest_sharing(const Problem& problem, std::span<const PairPrice> prices, std::span<const Bytes> start,
                            const PlanOptions& options = {}, const PricingEffort& effort = {},
                            const OnPricedPlan& tell = {});

// solve_priced() first makes a plan, and then searches for a lower price. Without a capacity, the plan has this share
// of a time limit. With a capacity, the plan first has to fit, and gets all the time that it needs.
inline constexpr double kPartBeforePrices = 0.4;

// Like cheapest_sharing(), but it makes the plan first. The time limit is for both parts. Also throws as solve().
PricedPlan solve_priced(const Problem& problem, std::span<const PairPrice> prices, const PlanOptions& options = {},
                        const PricingEffort& effort = {}, const OnPricedPlan& tell = {},
                        const ChosenPlanner& planner = choose_planner("auto"));

}  // namespace memplan
