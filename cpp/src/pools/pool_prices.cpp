#include "pools/pool_prices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ascent.hpp"

namespace memplan {

namespace {

constexpr double kRefusedPrice = std::numeric_limits<double>::infinity();

constexpr std::size_t kMostTerms = 100'000'000;  // that all rounds with large groups look at
constexpr Bytes kMostFitting = 6;                // of large groups that a row counts

class PoolPricing {
 public:
  // With rows for large groups, or only those of all bytes.
  PoolPricing(const PoolProblems& problems, const Demand& demand, bool large)
      : problems_(problems), demand_(demand), pools_(problems.pools()), sections_(at(demand.sections())) {
    reduced.resize(at(problems.count()) * pools_);
    begin_.push_back(0);
    for (Index i = 0; i < problems.count(); ++i) begin_.push_back(begin_.back() + demand.of(i).size());
    for (std::size_t p = 0; p < pools_; ++p) {
      first_row_.push_back(room_.size());
      if (problems.capacity(p)) add_rows(p, large);
    }
    first_row_.push_back(room_.size());
  }

  std::size_t prices() const { return room_.size() * sections_; }

  // What a round looks at.
  std::size_t terms() const { return room_.size() * (begin_.back() + sections_); }

  // Prices of bytes, and of nothing else.
  std::vector<double> with_bytes(const PoolPricing& bytes, const std::vector<double>& of_bytes) const {
    std::vector<double> price(prices(), 0);
    for (std::size_t p = 0; p < pools_; ++p) {
      if (!problems_.capacity(p)) continue;
      const auto row = of_bytes.begin() + static_cast<std::ptrdiff_t>(bytes.first_row_[p] * sections_);
      std::copy_n(row, sections_, price.begin() + static_cast<std::ptrdiff_t>(first_row_[p] * sections_));
    }
    return price;
  }

  // The bound at these prices, by row and section. Afterwards `used` has what is taken of each.
  double bound(const std::vector<double>& price) {
    const std::size_t width = sections_ + 1;
    sum_.assign(room_.size() * width, 0);
    double bound = 0, largest = 0;
    for (std::size_t r = 0; r < room_.size(); ++r) {
      double worth = 0;
      for (std::size_t s = 0; s < sections_; ++s) {
        sum_[r * width + s + 1] = sum_[r * width + s] + price[r * sections_ + s];
        worth += price[r * sections_ + s] * room_[r][s];
      }
      bound -= worth;
      largest += worth;
    }
    used_.assign(room_.size() * width, 0);
    for (Index i = 0; i < problems_.count(); ++i) {
      const std::size_t best = choose(i, largest);
      bound += reduced[at(i) * pools_ + best];
      for (std::size_t r = first_row_[best]; r < first_row_[best + 1]; ++r)
        for_each_use(i, r, [&](const SectionUse& use, double taken) {
          used_[r * width + at(use.first)] += taken;
          used_[r * width + at(use.last)] -= taken;
        });
    }
    for (std::size_t r = 0; r < room_.size(); ++r)
      for (std::size_t s = 1; s < sections_; ++s) used_[r * width + s] += used_[r * width + s - 1];
    constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
    const std::size_t terms = (kMostFitting + 1) * (sections_ + at(problems_.count()) + 4);
    rounding = kEpsilon * static_cast<double>(terms) * largest;
    return bound;
  }

  // How the bound changes with the price of a section of a row.
  double slope(std::size_t price) const {
    const std::size_t r = price / sections_, s = price % sections_;
    return used_[r * (sections_ + 1) + s] - room_[r][s];
  }

  std::vector<double> reduced;
  double rounding = 0;

 private:
  // The row of all bytes of a pool, and those of groups of which a few fit: where at most k - 1 of what is larger than
  // a k-th of the capacity can lie, its bytes count rounded down to that unit, and so does the capacity.
  void add_rows(std::size_t p, bool large) {
    add_row(p, 1);
    if (!large) return;
    Bytes capacity = 0, largest = 0;
    for (Index s = 0; s < demand_.sections(); ++s) capacity = std::max(capacity, demand_.capacity(p, s));
    for (Index i = 0; i < problems_.count(); ++i)
      if (problems_.cost_of(i, p) != kRefused)
        for (const SectionUse& use : demand_.of(i)) largest = std::max(largest, demand_.bytes(use, p));
    for (Bytes k = 2; k <= kMostFitting; ++k)
      if (capacity / k < largest) add_row(p, capacity / k + 1);
  }

  void add_row(std::size_t p, Bytes unit) {
    const auto rounded = [unit](Bytes bytes) { return static_cast<double>(bytes / unit * unit); };
    std::vector<double>& room = room_.emplace_back();
    std::vector<double>& taken = taken_.emplace_back();
    for (Index s = 0; s < demand_.sections(); ++s) room.push_back(rounded(demand_.capacity(p, s)));
    for (Index i = 0; i < problems_.count(); ++i)
      for (const SectionUse& use : demand_.of(i)) taken.push_back(rounded(demand_.bytes(use, p)));
  }

  template <class F>
  void for_each_use(Index i, std::size_t row, F&& f) const {
    const double* taken = taken_[row].data() + begin_[at(i)];
    for (const SectionUse& use : demand_.of(i)) {
      if (*taken > 0) f(use, *taken);
      ++taken;
    }
  }

  std::size_t choose(Index i, double& largest) {
    std::size_t best = 0;
    double least = kRefusedPrice, most = 0;
    for (std::size_t p = 0; p < pools_; ++p) {
      double& cost = reduced[at(i) * pools_ + p];
      cost = problems_.cost_of(i, p) == kRefused ? kRefusedPrice : static_cast<double>(problems_.cost_of(i, p));
      if (cost == kRefusedPrice) continue;
      double terms = 0;
      for (std::size_t r = first_row_[p]; r < first_row_[p + 1]; ++r) {
        const double* sum = sum_.data() + r * (sections_ + 1);
        for_each_use(i, r, [&](const SectionUse& use, double taken) {
          cost += taken * (sum[at(use.last)] - sum[at(use.first)]);
          terms += 2 * taken * sum[at(use.last)];
        });
      }
      most = std::max(most, cost + terms);
      if (cost < least) {
        least = cost;
        best = p;
      }
    }
    largest += most;
    return best;
  }

  const PoolProblems& problems_;
  const Demand& demand_;
  const std::size_t pools_, sections_;
  std::vector<std::size_t> begin_;          // per group, and one more: of its uses among all
  std::vector<std::size_t> first_row_;      // per pool, and one more
  std::vector<std::vector<double>> room_;   // per row and section
  std::vector<std::vector<double>> taken_;  // per row and use
  std::vector<double> sum_;                 // per row and section, and one more: the prices of those before
  std::vector<double> used_;                // per row and section, and one more
};

}  // namespace

PoolPrices pool_prices(const PoolProblems& problems, const Demand& demand, double known, int rounds,
                       const Deadline& deadline) {
  PoolPricing bytes(problems, demand, false);
  const std::vector<double> of_bytes = ascend(bytes, bytes.prices(), known, rounds, deadline);
  PoolPricing pricing(problems, demand, true);
  const int more = static_cast<int>(std::min<std::size_t>(at(rounds), kMostTerms / (1 + pricing.terms())));
  const std::vector<double> near = ascend(pricing, pricing.with_bytes(bytes, of_bytes), known, more, deadline);
  const std::vector<double> far = ascend(pricing, pricing.prices(), known, more, deadline);
  const std::vector<double>& best = pricing.bound(far) > pricing.bound(near) ? far : near;
  PoolPrices prices;
  prices.bound = pricing.bound(best);
  prices.rounding = pricing.rounding;
  prices.bound = std::max(0.0, prices.bound - prices.rounding);
  prices.reduced = prices.regret = std::move(pricing.reduced);
  const std::size_t pools = problems.pools();
  for (std::size_t i = 0; i < prices.regret.size(); i += pools) {
    const auto begin = prices.regret.begin() + static_cast<std::ptrdiff_t>(i);
    const double least = *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(pools));
    for (std::size_t p = 0; p < pools; ++p) prices.regret[i + p] -= least;
  }
  return prices;
}

}  // namespace memplan
