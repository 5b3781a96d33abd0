#include "memplan/partial_order.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostOrderWords = std::size_t{1} << 28;  // 2 GiB of bits

// Which events happen before which.
class Reach {
 public:
  Reach(std::vector<Step> events, const std::vector<std::pair<Step, Step>>& pairs)
      : events_(std::move(events)), words_(events_.size() / 64 + 1) {
    if (words_ > kMostOrderWords / std::max<std::size_t>(events_.size(), 1))
      throw ProblemError("happens_before among " + std::to_string(events_.size()) +
                         " steps would need more than 2 GiB");
    rows_.assign(events_.size() * words_, 0);
    std::vector<std::vector<std::size_t>> next(events_.size());
    for (const auto& [earlier, later] : pairs) next[rank(earlier)].push_back(rank(later));
    for (std::size_t e = events_.size(); e-- > 0;)
      for (const std::size_t later : next[e]) {
        rows_[e * words_ + later / 64] |= std::uint64_t{1} << (later % 64);
        for (std::size_t w = 0; w < words_; ++w) rows_[e * words_ + w] |= rows_[later * words_ + w];
      }
  }

  std::size_t rank(Step step) const {
    return static_cast<std::size_t>(std::lower_bound(events_.begin(), events_.end(), step) - events_.begin());
  }
  bool before(std::size_t a, std::size_t b) const { return (rows_[a * words_ + b / 64] >> (b % 64)) & 1; }

 private:
  std::vector<Step> events_;  // ascending
  std::size_t words_;
  std::vector<std::uint64_t> rows_;
};

}  // namespace

Problem with_happens_before(const Problem& problem, const std::vector<std::pair<Step, Step>>& pairs) {
  std::vector<Step> events(problem.first().begin(), problem.first().end());
  events.insert(events.end(), problem.last().begin(), problem.last().end());
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto& [earlier, later] = pairs[k];
    if (earlier >= later)
      throw ProblemError("happens_before[" + std::to_string(k) +
                         "] must name the earlier step first, by a lower number, got (" + std::to_string(earlier) +
                         ", " + std::to_string(later) + ")");
    events.insert(events.end(), {earlier, later});
  }
  std::sort(events.begin(), events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  const Reach reach(std::move(events), pairs);
  std::vector<std::size_t> begins, ends;
  for (Index i = 0; i < problem.count(); ++i) {
    begins.push_back(reach.rank(problem.first(i)));
    ends.push_back(reach.rank(problem.last(i)));
  }
  const auto may_follow = [&](Index a, Index b) {
    return ends[at(a)] == begins[at(b)] || reach.before(ends[at(a)], begins[at(b)]);
  };
  Conflicts conflicts = problem.conflicts() != nullptr ? *problem.conflicts() : Conflicts(problem.count());
  for (Index a = 0; a < problem.count(); ++a)
    for (Index b = 0; b < a; ++b) {
      const bool together = problem.first(a) < problem.last(b) && problem.first(b) < problem.last(a);
      if (!together && !may_follow(a, b) && !may_follow(b, a)) conflicts.add(a, b);
    }
  return problem.with_conflicts(std::move(conflicts));
}

ClockedLives lives_of_clocks(std::span<const std::int64_t> first, std::span<const std::int64_t> last,
                             std::size_t clocks) {
  const std::size_t count = first.size() / clocks;
  const auto clock = [&](std::size_t event) {  // the first ones, then the last ones
    return event < count ? first.subspan(event * clocks, clocks) : last.subspan((event - count) * clocks, clocks);
  };
  const auto same_or_before = [&](std::size_t a, std::size_t b) {
    const auto one = clock(a), other = clock(b);
    return std::equal(one.begin(), one.end(), other.begin(), [](std::int64_t x, std::int64_t y) { return x <= y; });
  };
  // In this order no clock comes after one that is nowhere below it.
  std::vector<std::size_t> order(2 * count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(clock(a).begin(), clock(a).end(), clock(b).begin(), clock(b).end());
  });
  ClockedLives lives{std::vector<Step>(count), std::vector<Step>(count), {}};
  Step step = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (k > 0 && !std::equal(clock(order[k]).begin(), clock(order[k]).end(), clock(order[k - 1]).begin())) ++step;
    (order[k] < count ? lives.first[order[k]] : lives.last[order[k] - count]) = step;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (lives.first[i] == lives.last[i] || !same_or_before(i, count + i))
      throw ProblemError("last[" + std::to_string(i) + "] must be a clock that comes after first[" + std::to_string(i) +
                         "]: no number below, and not the same");
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const bool together = lives.first[a] < lives.last[b] && lives.first[b] < lives.last[a];
      if (!together && !same_or_before(count + a, b) && !same_or_before(count + b, a))
        lives.conflicts.emplace_back(static_cast<Index>(b), static_cast<Index>(a));
    }
  return lives;
}

}  // namespace memplan
