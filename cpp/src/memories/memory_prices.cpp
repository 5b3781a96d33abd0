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
  MemoryPricing(const MemoryRequest& request, const Demand& demand)
      : request_(request), demand_(demand), pools_(request.pools.size()), sections_(at(demand.sections())) {
    reduced.resize(request.cost.size());
  }

  std::size_t prices() const { return pools_ * sections_; }

  // The bound at these prices, by pool and section. Afterwards `used` has the bytes that lie in each.
  double bound(const std::vector<double>& price) {
    sum_.assign(pools_ * (sections_ + 1), 0);
    double bound = 0, largest = 0;
    for (std::size_t p = 0; p < pools_; ++p) {
      if (!request_.pools[p].capacity) continue;
      const double capacity = static_cast<double>(demand_.capacity(p));
      for (std::size_t s = 0; s < sections_; ++s)
        sum_[p * (sections_ + 1) + s + 1] = sum_[p * (sections_ + 1) + s] + price[p * sections_ + s];
      const double worth = sum_[p * (sections_ + 1) + sections_] * capacity;
      bound -= worth;
      largest += worth;
    }
    used_.assign(pools_ * (sections_ + 1), 0);
    for (Index i = 0; i < request_.problem.count(); ++i) {
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
    rounding = kEpsilon * static_cast<double>(sections_ + at(request_.problem.count()) + 4) * largest;
    return bound;
  }

  // How the bound changes with the price of a section of a pool.
  double slope(std::size_t price) const {
    const std::size_t p = price / sections_, s = price % sections_;
    if (!request_.pools[p].capacity) return 0;
    return used_[p * (sections_ + 1) + s] - static_cast<double>(demand_.capacity(p));
  }

  std::vector<double> reduced;
  double rounding = 0;

 private:
  std::size_t choose(Index i, double& largest) {
    std::size_t best = 0;
    double least = kRefusedPrice, most = 0;
    for (std::size_t p = 0; p < pools_; ++p) {
      double& cost = reduced[at(i) * pools_ + p];
      cost = request_.cost_of(i, p) == kRefused ? kRefusedPrice : static_cast<double>(request_.cost_of(i, p));
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

  const MemoryRequest& request_;
  const Demand& demand_;
  const std::size_t pools_, sections_;
  std::vector<double> sum_;   // per pool and section, and one more: the prices of those before
  std::vector<double> used_;  // per pool and section, and one more
};

}  // namespace

MemoryPrices memory_prices(const MemoryRequest& request, const Demand& demand, double known, int rounds,
                           const Deadline& deadline) {
  MemoryPricing pricing(request, demand);
  const std::vector<double> best = ascend(pricing, pricing.prices(), known, rounds, deadline);
  MemoryPrices prices;
  prices.bound = pricing.bound(best);
  prices.rounding = pricing.rounding;
  prices.bound = std::max(0.0, prices.bound - prices.rounding);
  prices.reduced = prices.regret = std::move(pricing.reduced);
  const std::size_t pools = request.pools.size();
  for (std::size_t i = 0; i < prices.regret.size(); i += pools) {
    const auto begin = prices.regret.begin() + static_cast<std::ptrdiff_t>(i);
    const double least = *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(pools));
    for (std::size_t p = 0; p < pools; ++p) prices.regret[i + p] -= least;
  }
  return prices;
}

}  // namespace memplan
