#include "problem/order_rows.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "problem/clique_search.hpp"

namespace memplan {

namespace {

constexpr std::size_t kOrderWordsPerTick = 8;  // of the deadline
constexpr Step kNoStepYet = -1;

bool is_subset(std::span<const std::uint64_t> some, std::span<const std::uint64_t> all) {
  for (std::size_t w = 0; w < some.size(); ++w)
    if (some[w] & ~all[w]) return false;
  return true;
}

}  // namespace

OrderRows::OrderRows(const Problem& problem, const std::vector<Index>& buffers, const Deadline& deadline)
    : count_(buffers.size()), words_(count_ / 64 + 1), after_(count_ * words_, 0), before_(after_) {
  const Conflicts* const conflicts = problem.conflicts();
  for (std::size_t a = 0; a < count_; ++a) {
    deadline.tick(count_);
    for (std::size_t b = 0; b < count_; ++b) {
      if (problem.last(buffers[a]) > problem.first(buffers[b])) continue;
      if (conflicts != nullptr && conflicts->contains(buffers[a], buffers[b])) continue;
      set(after_, static_cast<Index>(a), static_cast<Index>(b));
      set(before_, static_cast<Index>(b), static_cast<Index>(a));
    }
  }
}

bool OrderRows::make_order(const Deadline& deadline) {
  return is_transitive(deadline) || (turn(deadline) && is_transitive(deadline));
}

bool OrderRows::is_transitive(const Deadline& deadline) const {
  bool is = true;
  for (Index a = 0; a < count() && is; ++a)
    for_each_bit(after(a), [&](Index b) {
      deadline.tick(words_ / kOrderWordsPerTick + 1);
      is = is && is_subset(after(b), after(a));
    });
  return is;
}

// Turns all pairs anew; false where two ask for different turns.
bool OrderRows::turn(const Deadline& deadline) {
  Rows open(after_.size());  // pairs that are not turned yet, both ways
  for (std::size_t k = 0; k < open.size(); ++k) open[k] = after_[k] | before_[k];
  std::fill(after_.begin(), after_.end(), 0);
  std::fill(before_.begin(), before_.end(), 0);
  std::vector<std::pair<Index, Index>> turned;
  bool clash = false;
  const auto put_before = [&](Index a, Index b) {
    if (has(after(a), b)) return;
    clash = clash || has(after(b), a);
    set(after_, a, b);
    set(before_, b, a);
    turned.emplace_back(a, b);
  };
  // What shares an end with (a, b) while the other ends conflict, or were turned sooner.
  const auto ask = [&](Index a, Index b) {
    deadline.tick(2 * words_ / kOrderWordsPerTick + 1);
    const auto of_a = row(open, a), of_b = row(open, b);
    for (std::size_t w = 0; w < words_; ++w) {
      for (std::uint64_t rest = of_a[w] & ~of_b[w]; rest != 0; rest &= rest - 1)
        put_before(a, static_cast<Index>(w * 64 + at(std::countr_zero(rest))));
      for (std::uint64_t rest = of_b[w] & ~of_a[w]; rest != 0; rest &= rest - 1)
        put_before(static_cast<Index>(w * 64 + at(std::countr_zero(rest))), b);
    }
  };
  for (Index a = 0; a < count() && !clash; ++a)
    for (Index b = a + 1; b < count() && !clash; ++b) {
      if (!has(row(open, a), b)) continue;
      turned.clear();
      put_before(a, b);
      for (std::size_t k = 0; k < turned.size() && !clash; ++k) ask(turned[k].first, turned[k].second);
      for (const auto& [x, y] : turned) {
        open[at(x) * words_ + at(y) / 64] &= ~(std::uint64_t{1} << (at(y) % 64));
        open[at(y) * words_ + at(x) / 64] &= ~(std::uint64_t{1} << (at(x) % 64));
      }
    }
  return !clash;
}

std::optional<OrderRows::Lives> OrderRows::lives(const std::vector<Index>& of, const Deadline& deadline) const {
  std::vector<std::uint64_t> among(words_, 0);
  for (const Index i : of) among[at(i) / 64] |= std::uint64_t{1} << (at(i) % 64);
  std::vector<std::vector<std::uint64_t>> sets;  // of those before each
  std::vector<std::int64_t> counts;
  for (const Index i : of) {
    deadline.tick(words_ / kOrderWordsPerTick + 1);
    sets.emplace_back(before(i).begin(), before(i).end());
    std::int64_t count = 0;
    for (std::size_t w = 0; w < words_; ++w) count += std::popcount(sets.back()[w] &= among[w]);
    counts.push_back(count);
  }
  std::vector<std::size_t> nest(of.size());
  std::iota(nest.begin(), nest.end(), std::size_t{0});
  std::stable_sort(nest.begin(), nest.end(), [&](std::size_t a, std::size_t b) { return counts[a] < counts[b]; });
  std::vector<Step> last_of(count_, kNoStepYet);
  Lives lives{std::vector<Step>(of.size()), std::vector<Step>(of.size())};
  Step step = 0;
  for (std::size_t k = 0; k < nest.size(); ++k) {
    const std::size_t here = nest[k];
    if (k > 0 && !is_subset(sets[nest[k - 1]], sets[here])) return std::nullopt;
    if (k > 0 && counts[nest[k - 1]] != counts[here]) ++step;
    lives.first[here] = step;
    for_each_bit(sets[here], [&](Index a) {
      if (last_of[at(a)] == kNoStepYet) last_of[at(a)] = step;
    });
  }
  for (std::size_t k = 0; k < of.size(); ++k)
    lives.last[k] = last_of[at(of[k])] == kNoStepYet ? step + 1 : last_of[at(of[k])];
  return lives;
}

}  // namespace memplan
