// PriceSearch: cheaper plans within a capacity: a few buffers are taken out and put back, one after another, each where
// it costs least.
//
//     offset ▲ ┌───┐┌───┐       ┌───┐             a and b pay. They are taken out, with others that pay to them or lie
//            │ │ a ││ c │       │ a │┌───┐        near them, and go back in another order. The plan that comes of it is
//            │ └───┘└───┘  ──▶  └───┘│ c │        taken if it is cheaper, or by chance if it costs little more; the
//            │ ┌───┐  ┌───┐     ┌───┐└───┘┌───┐   dearer it is, and the later, the less likely.
//            │ │ d │  │ b │     │ d │     │ b │
//            └─┴───┴──┴───┴▶    └───┘─────┴───┘
//
// If a buffer finds no free offset, the trial ends, and all buffers go back to where they were. So there is a plan at
// every moment.
//
// Complexity: a trial takes O(t k log k) for t buffers taken out, each with k neighbours. Guarantee: none.
// Source: ruin and recreate, Schrimpf, Schneider, Stamm-Wilbrandt and Dueck 2000; blinks, Christiaens and Vanden Berghe
// 2020; there of vehicles' tours.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/chance.hpp"
#include "base/deadline.hpp"
#include "pricing/pair_ranges.hpp"
#include "pricing/priced_layout.hpp"

namespace memplan {

class PriceSearch {
 public:
  using OnBetter = std::function<void()>;  // the best plan is cheaper, or lower, than before

  // Begins with a plan within the capacity. `problem` is that of the ranges; both outlive it.
  PriceSearch(const Problem& problem, PairRanges& ranges, std::span<const Bytes> offsets, Bytes capacity,
              std::uint64_t seed);

  // Places all buffers in several orders, and goes on from the cheapest plan, if it is cheaper. About that much work.
  void begin_greedily(std::int64_t work, const Deadline& deadline, const OnBetter& better);
  // Each buffer that pays in the best plan goes where it pays nothing, or least, as low as it can. O(k log k) for each
  // such buffer, with k neighbours.
  void move_payers(const Deadline& deadline, const OnBetter& better);
  // Improves the best plan, until it costs no more than `enough`. Steps are wide at first, and small at the end;
  // `progress` goes from 0 to 1 meanwhile, and says when to end.
  void anneal(const std::function<double()>& progress, std::int64_t enough, const Deadline& deadline,
              const OnBetter& better);
  // Looks for lower peaks at the price of the best plan or below, until the peak is `enough` or many trials are in
  // vain.
  void lower_peak(Bytes enough, const Deadline& deadline, const OnBetter& better);

  // Takes another plan as the best: it is within the capacity, and cheaper, or as cheap and lower.
  void take(std::span<const Bytes> offsets);

  const std::vector<Bytes>& best() const { return best_; }
  std::int64_t price() const { return best_price_; }
  std::int64_t work() const { return layout_.work() + work_; }

 private:
  void restart();
  bool place_all(std::span<const Index> order, double weight, const Deadline& deadline);
  void take_out(Index first, const Deadline& deadline);
  void add_partners(std::size_t count);
  void add_related(std::size_t count);
  void add_near(Index first, std::size_t count);
  void add(Index i);
  bool put_back(Bytes capacity, std::int64_t most);
  bool accept(double heat);
  Index who_pays();
  void list_payers();
  void settle(bool taken, const OnBetter& better);
  void keep(const OnBetter& better);
  std::vector<Index> those_that_end_at(Bytes peak) const;
  void move(Index i);

  const Problem& problem_;
  PairRanges& ranges_;
  PricedLayout layout_;
  Bytes capacity_;
  Chance chance_;
  double unit_;  // the mean price of a pair
  std::vector<Index> movable_;
  std::vector<Bytes> best_;
  std::int64_t best_price_, price_;
  std::vector<Index> out_;     // what the trial takes out
  std::vector<Bytes> before_;  // where it was
  std::vector<char> is_out_;
  std::int64_t change_ = 0;   // of the price, by the trial
  std::vector<Index> moved_;  // since the best plan
  std::vector<char> has_moved_;
  std::vector<Index> payers_;
  std::size_t trials_until_list_ = 0;
  std::vector<std::pair<double, Index>> keyed_;
  std::int64_t work_ = 0;  // beyond the layout's
};

}  // namespace memplan
