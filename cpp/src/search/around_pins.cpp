#include "search/around_pins.hpp"

#include <algorithm>
#include <numeric>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "placing/in_order.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kShares = 8;                 // of the effort: for a capacity, one at most
constexpr Bytes kMostBytes = kMaxBytes / 8;         // of a plan that is improved
constexpr std::int64_t kMostPerBuffer = 1'000'000;  // effort for a capacity, unless someone asked for more

// What every peak that matters is a multiple of: each offset is a sum of sizes, and of ends of parts, pins and reserved
// bytes, rounded up to alignments.
Bytes common_step(const Problem& problem) {
  Bytes step = 0;
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size(i) == 0) continue;
    step = std::gcd(step, problem.size(i));
    if (problem.alignment(i) > 1) step = std::gcd(step, problem.alignment(i));
    if (problem.pin(i) != kNowhere) step = std::gcd(step, problem.pin(i));
    for (const Part& part : problem.parts(i)) step = std::gcd(step, std::gcd(part.begin, part.end));
  }
  for (const Reserved& range : problem.reserved()) step = std::gcd(step, range.end);
  return std::max<Bytes>(1, step);
}

// The problem without pins for a capacity, and the way back from its plans.
class Ground {
 public:
  explicit Ground(const Problem& problem) : problem_(problem) {
    for (Index i = 0; i < problem.count(); ++i) {
      if (problem.size(i) == 0) continue;
      if (problem.pin(i) == kNowhere) free_.push_back(i);
      begin_ = std::min(begin_, problem.first(i));
      end_ = std::max(end_, problem.last(i));
    }
  }

  // Free buffers first, then the ground. The capacity is at least where the pins end.
  Problem at(Bytes capacity) const {
    std::vector<Bytes> size, alignment;
    std::vector<Step> first, last;
    std::vector<Part> parts;
    const auto add = [&](Bytes bytes, Step born, Step dead, Bytes multiple) {
      size.push_back(bytes);
      first.push_back(born);
      last.push_back(dead);
      alignment.push_back(multiple);
    };
    for (const Index i : free_) add(problem_.size(i), problem_.first(i), problem_.last(i), problem_.alignment(i));
    std::vector<Part> fixed = fixed_parts(capacity);
    Step end = end_;
    std::vector<bool> met(free_.size(), false);
    const std::vector<std::pair<Index, Index>> apart_from_pins = apart();
    if (end > std::numeric_limits<Step>::max() - static_cast<Step>(apart_from_pins.size()))
      throw UnsupportedError("pinned buffers that conflict need steps of their own after the last, " +
                             std::to_string(end));
    for (const auto& [buffer, pinned] : apart_from_pins) {
      const Index ground = static_cast<Index>(free_.size());
      const Bytes pin = problem_.pin(pinned);
      if (!met[memplan::at(buffer)]) append_parts(buffer, parts);
      met[memplan::at(buffer)] = true;
      parts.push_back({buffer, 0, size[memplan::at(buffer)], end, end + 1});
      fixed.push_back({ground, pin, pin + problem_.size(pinned), end, end + 1});
      last[memplan::at(buffer)] = ++end;
    }
    for (std::size_t k = 0; k < free_.size(); ++k)
      if (!met[k] && !problem_.parts(free_[k]).empty()) append_parts(static_cast<Index>(k), parts);
    if (!fixed.empty()) {
      add(capacity, begin_, end, 1);
      parts.insert(parts.end(), fixed.begin(), fixed.end());
    }
    Problem without(std::move(size), std::move(first), std::move(last), std::move(alignment));
    without = without.with_shapes(std::move(parts));
    return problem_.conflicts() == nullptr ? without : without.with_conflicts(conflicts_among(without.count()));
  }

  std::vector<Bytes> offsets(std::span<const Bytes> of_free) const {
    std::vector<Bytes> offsets(problem_.size().size(), 0);
    for (Index i = 0; i < problem_.count(); ++i)
      if (problem_.pin(i) != kNowhere) offsets[memplan::at(i)] = problem_.pin(i);
    for (std::size_t k = 0; k < free_.size(); ++k) offsets[memplan::at(free_[k])] = of_free[k];
    return offsets;
  }

 private:
  std::vector<Part> fixed_parts(Bytes capacity) const {
    const Index ground = static_cast<Index>(free_.size());
    std::vector<Part> parts;
    for (Index i = 0; i < problem_.count(); ++i) {
      if (problem_.pin(i) == kNowhere || problem_.size(i) == 0) continue;
      problem_.for_each_part(i, [&](const Part& part) {
        parts.push_back({ground, problem_.pin(i) + part.begin, problem_.pin(i) + part.end, part.first, part.last});
      });
    }
    for (const Reserved& range : problem_.reserved()) {
      const Bytes end = std::min(range.end, capacity);
      const Step first = std::max(range.first, begin_), last = std::min(range.last, end_);
      if (range.begin < end && first < last) parts.push_back({ground, range.begin, end, first, last});
    }
    return parts;
  }

  // The parts of a free buffer, by its position among them, or the one that it is.
  void append_parts(Index k, std::vector<Part>& parts) const {
    problem_.for_each_part(free_[memplan::at(k)], [&](Part part) {
      part.buffer = k;
      parts.push_back(part);
    });
  }

  // Free buffers, by position among them, each with a pinned one that it conflicts with whatever their lifetimes.
  std::vector<std::pair<Index, Index>> apart() const {
    std::vector<std::pair<Index, Index>> found;
    for (std::size_t k = 0; problem_.conflicts() != nullptr && k < free_.size(); ++k)
      problem_.conflicts()->for_each(free_[k], [&](Index other) {
        if (problem_.pin(other) != kNowhere && problem_.size(other) > 0)
          found.emplace_back(static_cast<Index>(k), other);
      });
    return found;
  }

  Conflicts conflicts_among(Index count) const {
    std::vector<Index> position(problem_.size().size(), kNone);
    for (std::size_t k = 0; k < free_.size(); ++k) position[memplan::at(free_[k])] = static_cast<Index>(k);
    Conflicts conflicts(count);
    for (const Index i : free_)
      problem_.conflicts()->for_each(i, [&](Index other) {
        const Index k = position[memplan::at(i)], other_k = position[memplan::at(other)];
        if (other_k != kNone && k < other_k) conflicts.add(k, other_k);
      });
    return conflicts;
  }

  const Problem& problem_;
  std::vector<Index> free_;
  Step begin_ = std::numeric_limits<Step>::max(), end_ = std::numeric_limits<Step>::min();  // of all lives
};

class Search {
 public:
  Search(const Problem& problem, const PlanOptions& options,
         const std::function<Placement(const Problem&, const PlanOptions&)>& planner, const Parameter& effort)
      : problem_(problem),
        options_(options),
        planner_(planner),
        effort_(effort),
        deadline_(options),
        ground_(problem),
        step_(common_step(problem)),
        bound_(up(std::max({options.lower_bound, load(problem), end_of_pins(problem)}))) {}

  Placement run() {
    best_ = naive(problem_, options_);
    best_.winner = "naive";
    peak_ = peak_of(problem_, best_.offsets);
    try {
      if (!options_.warm.empty()) {
        const Placement start = warm_plan(problem_, options_, deadline_);
        keep(start.winner, start.offsets);
      }
      keep("greedy_by_size", greedy_by_size_until(problem_, deadline_).offsets);
      keep("first_fit", place_in_order(problem_, by_birth(problem_), deadline_, lowest_fit).offsets);
      improve();
    } catch (const EndedError&) {
    }
    best_.lower_bound = bound_;
    best_.searched = true;
    return best_;
  }

 private:
  Bytes up(Bytes bytes) const { return align_up(bytes, step_); }

  void keep(std::string_view winner, std::vector<Bytes> offsets) {
    const Bytes peak = peak_of(problem_, offsets);
    if (peak >= peak_) return;
    best_.offsets = std::move(offsets);
    best_.winner = winner;
    peak_ = peak;
    options_.tell({best_.offsets, peak_, bound_, best_.winner});
  }

  void improve() {
    if (peak_ > kMostBytes) return;  // with a ground of as many, sums would be more than int64 holds
    Bytes least = std::max(bound_, options_.enough(bound_) / step_ * step_);  // below, nothing is left to try
    for (bool first = true; peak_ > options_.enough(bound_) && least < peak_; first = false) {
      const Bytes capacity = first ? least : least + (peak_ - step_ - least) / step_ / 2 * step_;
      const Problem without_pins = ground_.at(capacity);
      const Placement found = planner_(without_pins, within(capacity));
      if (peak_of(without_pins, found.offsets) <= capacity) {  // then the ground is at 0
        keep(found.winner, ground_.offsets(found.offsets));
        continue;
      }
      if (found.lower_bound > capacity) bound_ = capacity + step_;
      least = capacity + step_;
      deadline_.check();
    }
  }

  PlanOptions within(Bytes capacity) const {
    PlanOptions within = options_;
    within.capacity = capacity;
    within.decide = true;
    within.lower_bound = 0;
    within.improved = {};
    within.warm.clear();
    const bool given = std::any_of(options_.set.begin(), options_.set.end(),
                                   [&](const auto& setting) { return setting.first == effort_.name; });
    const std::int64_t share = options_.get(effort_) / kShares;
    const std::int64_t most = kMostPerBuffer * std::max<Index>(problem_.count(), 1);
    std::erase_if(within.set, [&](const auto& setting) { return setting.first == effort_.name; });
    within.set.emplace_back(effort_.name, given ? share : std::min(share, most));
    return within;
  }

  const Problem& problem_;
  const PlanOptions& options_;
  const std::function<Placement(const Problem&, const PlanOptions&)>& planner_;
  const Parameter& effort_;
  const Deadline deadline_;
  const Ground ground_;
  const Bytes step_;
  Bytes bound_;
  Placement best_;
  Bytes peak_ = kMaxBytes;
};

}  // namespace

Placement around_pins(const Problem& problem, const PlanOptions& options,
                      const std::function<Placement(const Problem&, const PlanOptions&)>& planner,
                      const Parameter& effort) {
  return Search(problem, options, planner, effort).run();
}

}  // namespace memplan
