#include "pricing/pair_ranges.hpp"

#include <algorithm>
#include <numeric>

namespace memplan {

namespace {

constexpr std::size_t kMostRangesKept = std::size_t{1} << 23;  // ranges: a quarter of a GiB

std::vector<Index> sorted_by_birth(const Problem& problem) {
  std::vector<Index> order(at(problem.count()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return problem.first(a) < problem.first(b); });
  return order;
}

// 0 for what has no bytes, which collides with nothing; else steps from the first birth on.
std::vector<Bytes> deaths_in(const Problem& problem, std::span<const Index> order) {
  std::vector<Bytes> deaths;
  for (const Index i : order)
    deaths.push_back(problem.size(i) == 0 ? 0 : problem.last(i) - problem.first(order.front()));
  return deaths;
}

}  // namespace

PairRanges::PairRanges(const Problem& problem, std::vector<PricedPair> pairs)
    : problem_(problem),
      pairs_(std::move(pairs)),
      priced_start_(at(problem.count()) + 1, 0),
      priced_(2 * pairs_.size()),
      by_birth_(sorted_by_birth(problem)),
      birth_of_(by_birth_.size()),
      deaths_(deaths_in(problem, by_birth_)),
      forbidden_(by_birth_.size()),
      known_(by_birth_.size(), false) {
  for (std::size_t k = 0; k < by_birth_.size(); ++k) {
    birth_of_[at(by_birth_[k])] = k;
    births_.push_back(problem.first(by_birth_[k]));
  }
  for (const PricedPair& pair : pairs_) {
    ++priced_start_[at(pair.a) + 1];
    ++priced_start_[at(pair.b) + 1];
  }
  std::partial_sum(priced_start_.begin(), priced_start_.end(), priced_start_.begin());
  std::vector<std::size_t> next(priced_start_.begin(), priced_start_.end() - 1);
  for (const PricedPair& pair : pairs_) {
    priced_[next[at(pair.a)]++] = {pair.b, pair.after, pair.before, pair.price};
    priced_[next[at(pair.b)]++] = {pair.a, -pair.before, -pair.after, pair.price};
  }
}

std::span<const PairRange> PairRanges::priced(Index i) const {
  const std::size_t begin = priced_start_[at(i)];
  return std::span(priced_).subspan(begin, priced_start_[at(i) + 1] - begin);
}

std::span<const PairRange> PairRanges::forbidden(Index i) {
  if (!known_[at(i)]) {
    if (kept_ > kMostRangesKept) {
      for (std::vector<PairRange>& list : forbidden_) std::vector<PairRange>().swap(list);
      known_.assign(known_.size(), false);
      kept_ = 0;
    }
    collect(i, forbidden_[at(i)]);
    known_[at(i)] = true;
    kept_ += forbidden_[at(i)].size();
  }
  return forbidden_[at(i)];
}

void PairRanges::collect(Index i, std::vector<PairRange>& found) const {
  const Step begin = births_.front();
  const auto born_later = std::lower_bound(births_.begin(), births_.end(), problem_.last(i)) - births_.begin();
  for (std::size_t k = 0;; ++k) {
    k = deaths_.first_at_least(k, problem_.first(i) - begin + 1);
    if (k >= at(born_later)) break;
    const Index other = by_birth_[k];
    if (other == i) continue;
    if (problem_.kept_apart(i, other)) continue;  // added below
    problem_.for_each_part(i, [&](const Part& p) {
      problem_.for_each_part(other, [&](const Part& q) {
        if (p.first < q.last && q.first < p.last) found.push_back({other, q.begin - p.end, q.end - p.begin, 0});
      });
    });
  }
  if (problem_.conflicts() != nullptr)
    problem_.conflicts()->for_each(i, [&](Index other) {
      if (problem_.size(other) > 0) found.push_back({other, -problem_.size(i), problem_.size(other), 0});
    });
  for (const Reserved& range : problem_.reserved())
    problem_.for_each_part(i, [&](const Part& p) {
      if (p.first < range.last && range.first < p.last)
        found.push_back({ground(), range.begin - p.end, range.end - p.begin, 0});
    });
}

std::int64_t PairRanges::paid(std::span<const Bytes> offsets) const {
  std::int64_t sum = 0;
  for (const PricedPair& pair : pairs_)
    if (pays(pair, offsets)) sum += pair.price;
  return sum;
}

}  // namespace memplan
