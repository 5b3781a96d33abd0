#include "problem/unbranched.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

class Unbranching {
 public:
  explicit Unbranching(const Problem& problem)
      : problem_(problem),
        moved_(at(problem.count()), false),
        first_(problem.first().begin(), problem.first().end()),
        last_(problem.last().begin(), problem.last().end()),
        parts_(at(problem.count())),
        reserved_(problem.reserved().begin(), problem.reserved().end()),
        conflicts_(problem.conflicts() != nullptr ? *problem.conflicts() : Conflicts(problem.count())) {
    for (Index i = 0; i < problem.count(); ++i) end_ = std::max(end_, problem.last(i));
    for (Reserved& range : reserved_)
      if (!is_always(range)) range.last = std::min(range.last, end_);
    std::erase_if(reserved_, [](const Reserved& range) { return range.first >= range.last; });
  }

  Problem run() {
    const std::vector<Pair> pairs = pairs_that_meet();
    choose(pairs);
    for (Index i = 0; i < problem_.count(); ++i)
      if (moved_[at(i)]) move(i);
    for (const Pair& pair : moved_and_other(pairs)) keep_apart(pair.first, pair.second);
    return made();
  }

 private:
  static bool is_always(const Reserved& range) {
    return range.first == Reserved{}.first && range.last == Reserved{}.last;
  }

  using Pair = std::pair<Index, Index>;

  // Those with bytes that live at one time, of which one at least is in a branch; once each. O(n log n), and them.
  std::vector<Pair> pairs_that_meet() const {
    std::vector<Index> births;
    for (Index i = 0; i < problem_.count(); ++i)
      if (problem_.size(i) > 0) births.push_back(i);
    std::stable_sort(births.begin(), births.end(),
                     [&](Index a, Index b) { return problem_.first(a) < problem_.first(b); });
    std::vector<Pair> pairs;
    std::vector<Index> branched, others;  // alive
    for (const Index born : births) {
      const auto dead = [&](Index i) { return problem_.last(i) <= problem_.first(born); };
      std::erase_if(branched, dead);
      for (const Index i : branched) pairs.emplace_back(born, i);
      if (problem_.branch(born).empty()) {
        others.push_back(born);
        continue;
      }
      std::erase_if(others, dead);
      for (const Index i : others) pairs.emplace_back(born, i);
      branched.push_back(born);
    }
    return pairs;
  }

  // The largest stay. Those in no branch do not move.
  void choose(const std::vector<Pair>& pairs) {
    std::vector<std::vector<Index>> exclusive(at(problem_.count()));
    for (const auto& [a, b] : pairs) {
      if (problem_.coexist(a, b)) continue;
      exclusive[at(a)].push_back(b);
      exclusive[at(b)].push_back(a);
    }
    std::vector<Index> order;
    for (Index i = 0; i < problem_.count(); ++i)
      if (!exclusive[at(i)].empty()) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return problem_.size(a) > problem_.size(b); });
    std::vector<bool> stays(at(problem_.count()), false);
    for (const Index i : order) {
      moved_[at(i)] =
          std::any_of(exclusive[at(i)].begin(), exclusive[at(i)].end(), [&](Index other) { return stays[at(other)]; });
      stays[at(i)] = !moved_[at(i)];
    }
  }

  // Of the pairs that some run has both of, those of which one has moved; the lower one that has comes first.
  std::vector<Pair> moved_and_other(const std::vector<Pair>& pairs) const {
    std::vector<Pair> found;
    for (const auto& [x, y] : pairs) {
      const auto [low, high] = std::minmax(x, y);
      const Index moved = moved_[at(low)] ? low : high;
      if (moved_[at(moved)] && problem_.coexist(x, y)) found.emplace_back(moved, x + y - moved);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  Step new_step() {
    if (end_ == std::numeric_limits<Step>::max())
      throw UnsupportedError("buffers in exclusive branches need steps of their own after the last, " +
                             std::to_string(end_));
    return end_++;
  }

  // A step for each of its parts, and one more for each range that is reserved in the life of that part: two of those
  // may meet, if they do not do so in time.
  void move(Index i) {
    first_[at(i)] = end_;
    problem_.for_each_part(i, [&](const Part& part) {
      const Step first = new_step();
      for (const Reserved& range : problem_.reserved()) {
        if (is_always(range) || range.first >= part.last || part.first >= range.last) continue;
        const Step step = new_step();
        reserved_.push_back({range.begin, range.end, step, step + 1});
      }
      if (!problem_.parts(i).empty()) parts_[at(i)].push_back({i, part.begin, part.end, first, end_});
    });
    last_[at(i)] = end_;
  }

  // With all their bytes, or where a shape leaves some free, each two parts that meet at a step of their own.
  void keep_apart(Index a, Index b) {
    if (problem_.parts(a).empty() && problem_.parts(b).empty()) return conflicts_.add(a, b);
    problem_.for_each_part(a, [&](const Part& p) {
      problem_.for_each_part(b, [&](const Part& q) {
        if (p.first >= q.last || q.first >= p.last) return;
        const Step step = new_step();
        for (const Part& part : {p, q}) {
          const Index i = part.buffer;
          if (parts_[at(i)].empty() && problem_.parts(i).empty())
            parts_[at(i)].push_back({i, 0, problem_.size(i), first_[at(i)], last_[at(i)]});
          parts_[at(i)].push_back({i, part.begin, part.end, step, step + 1});
          last_[at(i)] = step + 1;
        }
      });
    });
  }

  Problem made() {
    std::vector<Part> parts;
    for (Index i = 0; i < problem_.count(); ++i) {
      if (!moved_[at(i)])
        for (const Part& part : problem_.parts(i)) parts.push_back(part);
      parts.insert(parts.end(), parts_[at(i)].begin(), parts_[at(i)].end());
    }
    std::vector<Bytes> pins;
    for (Index i = 0; i < problem_.count(); ++i) pins.push_back(problem_.pin(i));
    Problem plain(std::vector(problem_.size().begin(), problem_.size().end()), std::move(first_), std::move(last_),
                  std::vector(problem_.alignment().begin(), problem_.alignment().end()), problem_.names());
    return plain.with_shapes(std::move(parts))
        .with_conflicts(std::move(conflicts_))
        .with_pins(std::move(pins), std::move(reserved_))
        .with_together({problem_.together().begin(), problem_.together().end()});
  }

  const Problem& problem_;
  std::vector<bool> moved_;
  std::vector<Step> first_, last_;
  std::vector<std::vector<Part>> parts_;  // per buffer: those besides its own; of a moved one, all
  std::vector<Reserved> reserved_;
  Conflicts conflicts_;
  Step end_ = std::numeric_limits<Step>::min();
};

}  // namespace

Problem without_branches(const Problem& problem) {
  return problem.has_branches() ? Unbranching(problem).run() : problem;
}

}  // namespace memplan
