#include "memories/memory_prices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/ascent.hpp"

namespace memplan {

namespace {

constexpr double kRefusedPrice = std::numeric_limits<double>::infinity();

class MemoryPricing {
 public:
  MemoryPricing(const Wholes& wholes, const Demand& demand)
      : wholes_(wholes), demand_(demand), pools_(wholes.pools()), sections_(at(demand.sections())) {
    reduced.resize(at(wholes.count()) * pools_);
  }

  std::size_t prices() const { return pools_ * sections_; }

  // The bound at these prices, by pool and section. Afterwards `used` has the bytes that lie in each.
  double bound(const std::vector<double>& price) {
    sum_.assign(pools_ * (sections_ + 1), 0);
    double bound = 0, largest = 0;
    for (std::size_t p = 0; p < pools_; ++p) {
      if (!wholes_.capacity(p)) continue;
      double worth = 0;
      for (std::size_t s = 0; s < sections_; ++s) {
        sum_[p * (sections_ + 1) + s + 1] = sum_[p * (sections_ + 1) + s] + price[p * sections_ + s];
        worth += price[p * sections_ + s] * room(p, s);
      }
      bound -= worth;
      largest += worth;
    }
    used_.assign(pools_ * (sections_ + 1), 0);
    for (Index i = 0; i < wholes_.count(); ++i) {
      const std::size_t best = choose(i, largest);
      bound += reduced[at(i) * pools_ + best];
      for (const SectionUse& use : demand_.of(i)) {
        used_[best * (sections_ + 1) + at(use.first)] += static_cast<double>(demand_.bytes(use, best));
        used_[best * (sections_ + 1) + at(use.last)] -= static_cast<double>(demand_.bytes(use, best));
      }
    }
    for (std::size_t p = 0; p < pools_; ++p)
      for (std::size_t s = 1; s < sections_; ++s) used_[p * (sections_ + 1) + s] += used_[p * (sections_ + 1) + s - 1];
    constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
    rounding = kEpsilon * static_cast<double>(sections_ + at(wholes_.count()) + 4) * largest;
    return bound;
  }

  // How the bound changes with the price of a section of a pool.
  double slope(std::size_t price) const {
    const std::size_t p = price / sections_, s = price % sections_;
    if (!wholes_.capacity(p)) return 0;
    return used_[p * (sections_ + 1) + s] - room(p, s);
  }

  std::vector<double> reduced;
  double rounding = 0;

 private:
  double room(std::size_t p, std::size_t s) const {
    return static_cast<double>(demand_.capacity(p, static_cast<Index>(s)));
  }

  std::size_t choose(Index i, double& largest) {
    std::size_t best = 0;
    double least = kRefusedPrice, most = 0;
    for (std::size_t p = 0; p < pools_; ++p) {
      double& cost = reduced[at(i) * pools_ + p];
      cost = wholes_.cost_of(i, p) == kRefused ? kRefusedPrice : static_cast<double>(wholes_.cost_of(i, p));
      if (cost == kRefusedPrice) continue;
      const double* sum = sum_.data() + p * (sections_ + 1);
      for (const SectionUse& use : demand_.of(i))
        cost += static_cast<double>(demand_.bytes(use, p)) * (sum[at(use.last)] - sum[at(use.first)]);
      double terms = cost;
      for (const SectionUse& use : demand_.of(i))
        terms += 2 * static_cast<double>(demand_.bytes(use, p)) * sum[at(use.last)];
      most = std::max(most, terms);
      if (cost < least) {
        least = cost;
        best = p;
      }
    }
    largest += most;
    return best;
  }

  const Wholes& wholes_;
  const Demand& demand_;
  const std::size_t pools_, sections_;
  std::vector<double> sum_;   // per pool and section, and one more: the prices of those before
  std::vector<double> used_;  // per pool and section, and one more
};

}  // namespace

MemoryPrices memory_prices(const Wholes& wholes, const Demand& demand, double known, int rounds,
                           const Deadline& deadline) {
  MemoryPricing pricing(wholes, demand);
  const std::vector<double> best = ascend(pricing, pricing.prices(), known, rounds, deadline);
  MemoryPrices prices;
  prices.bound = pricing.bound(best);
  prices.rounding = pricing.rounding;
  prices.bound = std::max(0.0, prices.bound - prices.rounding);
  prices.reduced = prices.regret = std::move(pricing.reduced);
  const std::size_t pools = wholes.pools();
  for (std::size_t i = 0; i < prices.regret.size(); i += pools) {
    const auto begin = prices.regret.begin() + static_cast<std::ptrdiff_t>(i);
    const double least = *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(pools));
    for (std::size_t p = 0; p < pools; ++p) prices.regret[i + p] -= least;
  }
  return prices;
}

}  // namespace memplan
