#include "pricing/open_pairs.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

std::string row(std::size_t k) { return "price[" + std::to_string(k) + "]"; }

void check(const Problem& problem, std::span<const PairPrice> prices) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < prices.size(); ++k) {
    const auto& [a, b, price] = prices[k];
    for (const Index i : {a, b})
      if (i < 0 || i >= problem.count())
        throw ProblemError(row(k) + " must name buffers below " + std::to_string(problem.count()) + ", got " +
                           std::to_string(i));
    if (a == b) throw ProblemError(row(k) + " must name two buffers, got " + quoted(problem.name(a)) + " twice");
    if (price < 0) throw ProblemError(row(k) + " price must be >= 0, got " + std::to_string(price));
    const auto more = checked_add(sum, price);
    if (!more) throw ProblemError("prices must add up to less than 2^63, exceeded at " + row(k));
    sum = *more;
  }
}

// Each pair once, the smaller index first, with all that it costs.
std::vector<PairPrice> merged(std::span<const PairPrice> prices) {
  std::vector<PairPrice> rows;
  for (const auto& [a, b, price] : prices)
    if (price > 0) rows.push_back({std::min(a, b), std::max(a, b), price});
  std::sort(rows.begin(), rows.end(),
            [](const PairPrice& x, const PairPrice& y) { return std::tie(x.a, x.b) < std::tie(y.a, y.b); });
  std::vector<PairPrice> pairs;
  for (const PairPrice& next : rows) {
    if (!pairs.empty() && pairs.back().a == next.a && pairs.back().b == next.b)
      pairs.back().price += next.price;
    else
      pairs.push_back(next);
  }
  return pairs;
}

}  // namespace

bool never_share(const Problem& problem, Index a, Index b) {
  return problem.size(a) == 0 || problem.size(b) == 0 || problem.wholly_apart(a, b);
}

OpenPairs open_pairs(const Problem& problem, const Fold* fold, std::span<const PairPrice> prices) {
  check(problem, prices);
  const Problem& flat = fold == nullptr ? problem : fold->problem();
  std::vector<Bytes> inside;  // where each buffer lies in its whole
  if (fold != nullptr) inside = fold->unfolded(std::vector<Bytes>(at(flat.count()), 0));
  OpenPairs open;
  for (const PairPrice& pair : merged(prices)) {
    const auto& [a, b, price] = pair;
    if (never_share(problem, a, b)) continue;
    const Index of_a = fold == nullptr ? a : fold->whole_of(a), of_b = fold == nullptr ? b : fold->whole_of(b);
    const Bytes above = fold == nullptr ? 0 : inside[at(b)] - inside[at(a)];
    const PricedPair whole{of_a, of_b, above - problem.size(a), above + problem.size(b), price};
    const bool fixed = flat.pin(of_a) != kNowhere && flat.pin(of_b) != kNowhere;
    if (of_a == of_b || fixed) {
      const Bytes difference = of_a == of_b ? 0 : flat.pin(of_a) - flat.pin(of_b);
      if (whole.after < difference && difference < whole.before) open.paid_anyway += price;
      continue;
    }
    open.pairs.push_back(pair);
    open.flat.push_back(whole);
  }
  return open;
}

}  // namespace memplan
