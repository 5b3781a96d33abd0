#include "memplan/partial_order.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/deadline.hpp"
#include "memplan/errors.hpp"
#include "problem/begins.hpp"

namespace memplan {

namespace {

// A list of events for each event.
class EventLists {
 public:
  // Of pairs, sorted by the first.
  EventLists(std::size_t events, const std::vector<std::pair<Index, Index>>& pairs) : start_(events + 1, 0) {
    for (const auto& [of, other] : pairs) {
      ++start_[at(of) + 1];
      list_.push_back(other);
    }
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
  }

  std::span<const Index> of(std::size_t event) const {
    return std::span(list_).subspan(start_[event], start_[event + 1] - start_[event]);
  }

 private:
  std::vector<std::size_t> start_;
  std::vector<Index> list_;
};

// Events in chains, and which events of each chain an event happens before: all from one on. Events are walked from the
// last to the first, and what one reaches is forgotten once all that happen before it are past.
class Reach {
 public:
  Reach(std::vector<Step> steps, const std::vector<std::pair<Step, Step>>& pairs, const Deadline& deadline)
      : steps_(std::move(steps)),
        next_(lists(pairs, false)),
        previous_(lists(pairs, true)),
        chain_(steps_.size(), kNone),
        deadline_(deadline) {
    std::vector<bool> followed(steps_.size(), false);  // in its chain
    std::vector<std::size_t> waiting(steps_.size());   // of those after it, without a chain
    for (std::size_t e = 0; e < steps_.size(); ++e) {
      waiting[e] = next_.of(e).size();
      Index before = kNone;  // that fewest others may follow
      for (const Index p : previous_.of(e))
        if (!followed[at(p)] && (before == kNone || waiting[at(p)] <= waiting[at(before)])) before = p;
      for (const Index p : previous_.of(e)) --waiting[at(p)];
      chain_[e] = before == kNone ? chains_++ : chain_[at(before)];
      if (before != kNone) followed[at(before)] = true;
      deadline_.tick(1 + 2 * previous_.of(e).size());
    }
  }

  std::size_t events() const { return steps_.size(); }
  Index chains() const { return chains_; }
  Index chain(std::size_t event) const { return chain_[event]; }
  std::size_t rank(Step step) const {
    return at(static_cast<Index>(std::lower_bound(steps_.begin(), steps_.end(), step) - steps_.begin()));
  }

  // Calls f(event, reached) from the last event to the first, where reached[chain] is the first event of that chain
  // which it is or happens before; kNever: there is none.
  template <class F>
  void walk(F&& f) const {
    std::vector<Row> rows(events());
    std::vector<std::size_t> asked(events(), 0);  // how often each row was
    std::vector<Step> reached(at(chains_), kNever);
    for (std::size_t e = events(); e-- > 0;) {
      std::vector<Index> found;  // chains
      for (const Index n : next_.of(e)) {
        const std::size_t later = at(n);
        if (reached[at(chain_[later])] > n)  // else it was reached by another way, with all that comes after it
          for (const auto& [chain, first] : rows[later]) {
            if (reached[at(chain)] == kNever) found.push_back(chain);
            reached[at(chain)] = std::min<Step>(reached[at(chain)], first);
          }
        deadline_.tick(1 + rows[later].size());
        if (++asked[later] == previous_.of(later).size()) Row().swap(rows[later]);
      }
      if (reached[at(chain_[e])] == kNever) found.push_back(chain_[e]);
      reached[at(chain_[e])] = static_cast<Step>(e);
      f(e, reached);
      for (const Index chain : found) {
        if (!previous_.of(e).empty()) rows[e].emplace_back(chain, static_cast<Index>(reached[at(chain)]));
        reached[at(chain)] = kNever;
      }
    }
  }

  static constexpr Step kNever = std::numeric_limits<Step>::max();

 private:
  using Row = std::vector<std::pair<Index, Index>>;  // chain, and the first event of it that is reached

  EventLists lists(const std::vector<std::pair<Step, Step>>& pairs, bool back) const {
    std::vector<std::pair<Index, Index>> ranks;
    for (const auto& [earlier, later] : pairs) {
      ranks.emplace_back(static_cast<Index>(rank(earlier)), static_cast<Index>(rank(later)));
      if (back) std::swap(ranks.back().first, ranks.back().second);
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return {steps_.size(), ranks};
  }

  std::vector<Step> steps_;  // ascending
  EventLists next_, previous_;
  std::vector<Index> chain_;
  Index chains_ = 0;
  const Deadline& deadline_;
};

std::vector<Step> steps_of(const Problem& problem, const std::vector<std::pair<Step, Step>>& pairs) {
  std::vector<Step> steps(problem.first().begin(), problem.first().end());
  steps.insert(steps.end(), problem.last().begin(), problem.last().end());
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto& [earlier, later] = pairs[k];
    if (earlier >= later)
      throw ProblemError("happens_before[" + std::to_string(k) +
                         "] must name the earlier step first, by a lower number, got (" + std::to_string(earlier) +
                         ", " + std::to_string(later) + ")");
    steps.insert(steps.end(), {earlier, later});
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// The order of clocks, of which one happens before another if none of its numbers is above the other's.
class Clocks {
 public:
  // Of the first events of buffers, then of their last ones.
  Clocks(std::span<const std::int64_t> first, std::span<const std::int64_t> last, std::size_t numbers)
      : first_(first), last_(last), numbers_(numbers), count_(first.size() / numbers) {}

  std::size_t buffers() const { return count_; }
  std::size_t numbers() const { return numbers_; }

  std::span<const std::int64_t> operator[](std::size_t event) const {
    return event < count_ ? first_.subspan(event * numbers_, numbers_)
                          : last_.subspan((event - count_) * numbers_, numbers_);
  }
  bool same_or_before(std::size_t a, std::size_t b) const {
    const auto one = (*this)[a], other = (*this)[b];
    return std::equal(one.begin(), one.end(), other.begin(), [](std::int64_t x, std::int64_t y) { return x <= y; });
  }

  // Events in an order in which none comes after one that it happens before.
  std::vector<std::size_t> sorted(const Deadline& deadline) const {
    std::vector<std::size_t> order(2 * count_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), deadline.ticking([&](std::size_t a, std::size_t b) {
      const auto one = (*this)[a], other = (*this)[b];
      return std::lexicographical_compare(one.begin(), one.end(), other.begin(), other.end());
    }));
    return order;
  }

 private:
  std::span<const std::int64_t> first_, last_;
  std::size_t numbers_, count_;
};

// Each first event, in this order, goes on in the chain that ends latest of those that it may.
Begins begins_of(const Clocks& clocks, const std::vector<std::size_t>& order, const std::vector<Step>& step,
                 const Deadline& deadline) {
  std::vector<std::vector<Begin>> chains;
  for (const std::size_t event : order) {
    if (event >= clocks.buffers()) continue;
    std::vector<Begin>* best = nullptr;
    for (std::vector<Begin>& chain : chains)
      if ((best == nullptr || best->back().event < chain.back().event) &&
          clocks.same_or_before(at(chain.back().buffer), event))
        best = &chain;
    deadline.tick(1 + chains.size());
    if (best == nullptr) best = &chains.emplace_back();
    best->push_back({step[event], static_cast<Index>(event)});
  }
  return Begins(std::move(chains));
}

}  // namespace

Problem with_happens_before(const Problem& problem, const std::vector<std::pair<Step, Step>>& pairs,
                            const Limits& limits) {
  const Deadline deadline(limits);
  const Reach reach(steps_of(problem, pairs), pairs, deadline);
  std::vector<std::vector<Begin>> chains(at(reach.chains()));
  std::vector<std::vector<Index>> ending(reach.events());  // buffers, by their last event
  for (Index i = 0; i < problem.count(); ++i) ending[reach.rank(problem.last(i))].push_back(i);
  std::vector<std::pair<std::size_t, Index>> by_begin;
  for (Index i = 0; i < problem.count(); ++i) by_begin.emplace_back(reach.rank(problem.first(i)), i);
  std::sort(by_begin.begin(), by_begin.end());
  for (const auto& [event, i] : by_begin) chains[at(reach.chain(event))].push_back({static_cast<Step>(event), i});
  const Begins begins(std::move(chains));
  Conflicts conflicts = problem.conflicts() != nullptr ? *problem.conflicts() : Conflicts(problem.count());
  reach.walk([&](std::size_t event, const std::vector<Step>& reached) {
    const auto before_reached = [&](std::size_t chain, std::span<const Begin> later) {
      deadline.tick();
      return static_cast<std::size_t>(
          std::partition_point(later.begin(), later.end(),
                               [&](const Begin& begin) { return begin.event < reached[chain]; }) -
          later.begin());
    };
    for (const Index a : ending[event])
      begins.for_each_apart(static_cast<Step>(event), before_reached, [&](Index b) {
        deadline.tick();
        conflicts.add(a, b);
      });
  });
  return problem.with_conflicts(std::move(conflicts));
}

ClockedLives lives_of_clocks(std::span<const std::int64_t> first, std::span<const std::int64_t> last,
                             std::size_t clocks, const Limits& limits) {
  const Deadline deadline(limits);
  const Clocks events(first, last, clocks);
  const std::size_t count = events.buffers();
  const std::vector<std::size_t> order = events.sorted(deadline);
  std::vector<Step> step(order.size(), 0);
  for (std::size_t k = 1; k < order.size(); ++k)
    step[order[k]] = step[order[k - 1]] + (std::ranges::equal(events[order[k]], events[order[k - 1]]) ? 0 : 1);
  const auto middle = step.begin() + static_cast<std::ptrdiff_t>(count);
  ClockedLives lives{{step.begin(), middle}, {middle, step.end()}, Conflicts(static_cast<Index>(count))};
  for (std::size_t i = 0; i < count; ++i)
    if (lives.first[i] == lives.last[i] || !events.same_or_before(i, count + i))
      throw ProblemError("last[" + std::to_string(i) + "] must be a clock that comes after first[" + std::to_string(i) +
                         "]: no number below, and not the same");
  const Begins begins = begins_of(events, order, step, deadline);
  for (std::size_t a = 0; a < count; ++a) {
    const auto before_reached = [&](std::size_t, std::span<const Begin> later) {
      deadline.tick(events.numbers());
      return static_cast<std::size_t>(
          std::partition_point(later.begin(), later.end(),
                               [&](const Begin& b) { return !events.same_or_before(count + a, at(b.buffer)); }) -
          later.begin());
    };
    begins.for_each_apart(lives.last[a], before_reached, [&](Index b) {
      deadline.tick();
      lives.conflicts.add(static_cast<Index>(a), b);
    });
  }
  return lives;
}

}  // namespace memplan
