#include "problem/fixed_bound.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "memplan/bounds.hpp"

namespace memplan {

namespace {

// What is alive and not fixed, by its bytes: how many bytes are in pieces of at most a size.
class Pieces {
 public:
  explicit Pieces(std::vector<Bytes> sizes) : sizes_(std::move(sizes)) {
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
    tree_.assign(sizes_.size() + 1, 0);
    for (const Bytes size : sizes_) step_ = std::gcd(step_, size);
  }

  void add(Bytes size, Bytes bytes) {
    all_ += bytes;
    for (std::size_t k = rank(size); k < tree_.size(); k += k & (~k + 1)) tree_[k] += bytes;
  }
  Bytes all() const { return all_; }
  // The most that pieces can take of so many bytes, for the step that all sizes are multiples of.
  Bytes multiple(Bytes bytes) const { return bytes - bytes % std::max<Bytes>(step_, 1); }
  Bytes of_at_most(Bytes size) const {
    Bytes bytes = 0;
    for (std::size_t k = rank(size); k > 0; k -= k & (~k + 1)) bytes += tree_[k];
    return bytes;
  }

 private:
  // How many sizes are at most that.
  std::size_t rank(Bytes size) const {
    return static_cast<std::size_t>(std::upper_bound(sizes_.begin(), sizes_.end(), size) - sizes_.begin());
  }

  std::vector<Bytes> sizes_;
  std::vector<Bytes> tree_;  // sums, as Fenwick's
  Bytes all_ = 0;
  Bytes step_ = 0;
};

struct Event {
  Step step;
  bool born;
  bool fixed;
  Bytes begin, end;  // of what is not fixed, 0 and its bytes
};

class GapSweep {
 public:
  explicit GapSweep(const Problem& problem)
      : events_(events_of(problem)), pieces_(sizes_of(events_)), unit_(unit_of(problem)) {}

  Bytes bound() {
    Bytes bound = 0;
    for (std::size_t k = 0; k < events_.size() && work_ > 0;) {
      const Step step = events_[k].step;
      for (; k < events_.size() && events_[k].step == step; ++k) take(events_[k]);
      const Bytes highest = fixed_.empty() ? 0 : align_up(fixed_.rbegin()->second, unit_);
      if (highest + pieces_.all() > bound) bound = std::max(bound, end());
    }
    return bound;
  }

 private:
  static std::vector<Event> events_of(const Problem& problem) {
    std::vector<Event> events;
    const auto add = [&](Step first, Step last, bool fixed, Bytes begin, Bytes end) {
      events.push_back({first, true, fixed, begin, end});
      events.push_back({last, false, fixed, begin, end});
    };
    for (Index i = 0; i < problem.count(); ++i) {
      if (problem.size(i) == 0) continue;
      const Bytes pin = problem.pin(i);
      problem.for_each_part(i, [&](const Part& part) {
        if (pin == kNowhere)
          add(part.first, part.last, false, 0, part.end - part.begin);
        else
          add(part.first, part.last, true, pin + part.begin, pin + part.end);
      });
    }
    for (const Reserved& range : problem.reserved()) add(range.first, range.last, true, range.begin, range.end);
    std::sort(events.begin(), events.end(),
              [](const Event& a, const Event& b) { return std::pair(a.step, a.born) < std::pair(b.step, b.born); });
    return events;
  }

  static std::vector<Bytes> sizes_of(const std::vector<Event>& events) {
    std::vector<Bytes> sizes;
    for (const Event& event : events)
      if (!event.fixed) sizes.push_back(event.end);
    return sizes;
  }

  // What all offsets of what is not fixed are multiples of.
  static Bytes unit_of(const Problem& problem) {
    Bytes unit = 0;
    for (Index i = 0; i < problem.count(); ++i) {
      if (problem.size(i) == 0 || problem.pin(i) != kNowhere) continue;
      unit = std::gcd(unit, problem.alignment(i));
      for (const Part& part : problem.parts(i)) unit = std::gcd(unit, part.begin);
    }
    return std::max<Bytes>(unit, 1);
  }

  void take(const Event& event) {
    if (!event.fixed) {
      pieces_.add(event.end, event.born ? event.end : -event.end);
    } else if (event.born) {
      fixed_.emplace(event.begin, event.end);
    } else {
      fixed_.erase({event.begin, event.end});
    }
  }

  // The lowest address below which the gaps of this step take all pieces.
  Bytes end() {
    Bytes begin = 0, left = pieces_.all();
    if (left == 0) return 0;
    for (const auto& [low, high] : fixed_) {
      --work_;
      const Bytes taken = low > begin ? std::min(pieces_.multiple(low - begin), pieces_.of_at_most(low - begin)) : 0;
      if (taken >= left) break;
      left -= taken;
      begin = std::max(begin, align_up(high, unit_));
    }
    return begin + left;
  }

  static constexpr std::int64_t kWork = 20'000'000;  // fixed ranges looked at

  const std::vector<Event> events_;
  Pieces pieces_;
  const Bytes unit_;
  std::set<std::pair<Bytes, Bytes>> fixed_;
  std::int64_t work_ = kWork;
};

}  // namespace

Bytes fixed_bound(const Problem& problem) {
  const Bytes pinned = end_of_pins(problem);
  if (!problem.has_pins() && problem.reserved().empty()) return pinned;
  return std::max(pinned, GapSweep(problem).bound());
}

}  // namespace memplan
