// Cores: if few pairs have a price, the proof that no plan is cheaper, and that no plan of this price peaks lower.
//
//     only a and b may share ─▶ a planner ─▶ no plan: of b and c, c and d, … one has to share, too: a core
//          ▲                                                       │
//          └── the cheapest set that has a pair of each core ◀─────┘
//
// Let some pairs share, and all others conflict. If a planner proves that this problem has no plan, the pairs that
// conflict are a core: one of them has to share. Pairs that the proof does not need are left out of it. No plan is
// cheaper than the cheapest set that has a pair of every core. If there is a plan in which only that set shares, it is
// the cheapest.
//
// A core takes a proof for each of its pairs. Exact, if the planner decides each question within the tries and the
// time. Source: implicit hitting sets, Moreno-Centeno and Karp 2013.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/pricing.hpp"

namespace memplan {

class Cores {
 public:
  using OnPlan = std::function<void(std::vector<Bytes>)>;

  // Pairs with prices > 0, each once, that need not share. `found` hears of every plan. `stop` may end the search, if
  // it is set. Problem and pairs outlive it.
  Cores(const Problem& problem, std::span<const PairPrice> pairs, int tries, std::function<bool()> stop, OnPlan found);

  // A lower bound of the price within the capacity. `price` is the price of the best plan, kept up to date by `found`.
  std::int64_t bound_of_price(Bytes capacity, const std::int64_t& price, const Deadline& deadline);
  // If no plan pays less than `price`: a lower bound of the peaks of the plans that pay `price`. It is `peak`, the peak
  // of the best such plan, if no such plan peaks lower; else `known`.
  Bytes bound_of_peak(std::int64_t price, const Bytes& peak, Bytes known, const Deadline& deadline);

 private:
  struct Found {  // perhaps a plan, and the bytes needed at least
    bool plan = false;
    Bytes bound = 0;
    std::int64_t price = 0;  // of the plan
  };

  Found plan(std::span<const char> may_share, std::optional<Bytes> capacity, const Deadline& deadline);
  bool add_core(std::span<const char> may_share, Bytes capacity, const Deadline& deadline);

  const Problem& problem_;
  std::span<const PairPrice> pairs_;
  int tries_;
  std::function<bool()> stop_;
  OnPlan found_;
  std::vector<std::int64_t> price_;              // per pair
  std::vector<std::vector<std::size_t>> cores_;  // positions of pairs
};

}  // namespace memplan
