// Pricing: pairs of buffers that may share bytes at a price, one after the other: the least price within a capacity,
// and among plans of that price the lowest peak.
//
//     offset ▲ ┌───┐┌───┐   capacity   c lies where a and b lay, and pays for
//            │ │ b ││ c │              both pairs; higher up it would pay for
//            │ ├───┤│   │              the one with b alone
//            │ │ a │└───┘
//            └─┴───┴──────▶ step
//
// Without a capacity, only pairs pay that pins and distances put over each other. A planner then looks for the lowest
// peak at that price. With a capacity, a search takes a few buffers out of a plan, and puts each back where it costs
// least (pricing/price_search.hpp). A bound adds up the prices of groups that are too large to lie apart
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

// What it costs if two buffers share bytes; several prices of one pair add up.
struct PairPrice {
  Index a = kNone;
  Index b = kNone;
  std::int64_t price = 0;
};

struct PricedPlan {
  std::vector<Bytes> offsets;
  Bytes peak = 0;
  std::int64_t price = 0;
  std::int64_t price_bound = 0;  // every plan within the capacity pays at least that
  Bytes peak_bound = 0;          // every plan within it that pays no more than this one peaks at least there
  bool interrupted = false;      // someone asked the search to end
  double seconds = 0;
  double found_after = 0;  // seconds until these offsets were found
};

struct PricingEffort {
  int tries = 1000;                // of a planner, in which only some pairs may share
  std::int64_t work = 80'000'000;  // of the search, if there is no time limit: byte ranges looked at
};

using OnPricedPlan = std::function<void(const PricedPlan&)>;

// What a plan pays. O(prices).
std::int64_t price_of(const Problem& problem, std::span<const PairPrice> prices, std::span<const Bytes> offsets);

// The pairs with a price above 0 that share bytes in a plan, each once, the smaller index first; ascending.
std::vector<std::pair<Index, Index>> paying_pairs(const Problem& problem, std::span<const PairPrice> prices,
                                                  std::span<const Bytes> offsets);

// From a plan, within the capacity if there is a capacity, to a verified plan that pays no more, and peaks no higher if
// it pays as much. `tell` hears of each better plan. Of the options, the time limit, the start, the seed, the capacity,
// the lower bound of the peak and `stop` count. The same for one seed, unless a time limit or `stop` cuts it short.
//
// Throws ProblemError for an index that is no buffer's, for a pair of a buffer with itself, for a price < 0, and for
// sums of prices beyond int64. Throws InvalidPlanError if the start is no plan of the problem within the capacity.
PricedPlan cheapest_sharing(const Problem& problem, std::span<const PairPrice> prices, std::span<const Bytes> start,
                            const PlanOptions& options = {}, const PricingEffort& effort = {},
                            const OnPricedPlan& tell = {});

// Of a time limit, for the plan from which the search for a price begins: if there is a capacity, the plan has to fit
// that first, and gets all the time that it needs.
inline constexpr double kPartBeforePrices = 0.4;

// The same from a plan that is found first; the time limit is for both. Throws as solve(), too.
PricedPlan solve_priced(const Problem& problem, std::span<const PairPrice> prices, const PlanOptions& options = {},
                        const PricingEffort& effort = {}, const OnPricedPlan& tell = {},
                        const ChosenPlanner& planner = choose_planner("auto"));

}  // namespace memplan
