#include "auto/around_pins.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "planners/planners.hpp"
#include "problem/fixed_bound.hpp"
#include "problem/ground.hpp"

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
    if (problem.pin(i) != kNowhere) step = std::gcd(step, problem.pin(i));
    if (problem.size(i) == 0) continue;
    step = std::gcd(step, problem.size(i));
    if (problem.alignment(i) > 1) step = std::gcd(step, problem.alignment(i));
    for (const Part& part : problem.parts(i)) step = std::gcd(step, std::gcd(part.begin, part.end));
  }
  for (const Reserved& range : problem.reserved()) step = std::gcd(step, range.end);
  return std::max<Bytes>(1, step);
}

class PinnedSearch {
 public:
  PinnedSearch(const Problem& problem, const PlanOptions& options,
               const std::function<Placement(const Problem&, const PlanOptions&)>& planner, const Parameter& effort,
               const Deadline& deadline)
      : problem_(problem),
        options_(options),
        planner_(planner),
        effort_(effort),
        deadline_(deadline),
        ground_(problem),
        step_(common_step(problem)),
        bound_(up(options.lower_bound > 0 ? options.lower_bound : std::max(load(problem), fixed_bound(problem)))) {}

  Placement run(std::vector<Bytes> first) {
    if (!options_.warm.empty()) {
      Placement start = warm_plan(problem_, options_, deadline_);
      keep(start.winner, std::move(start.offsets));
    }
    keep("first_fit", std::move(first));
    in_time([&] {
      if (peak_ > options_.enough(bound_)) keep("greedy_by_size", greedy_by_size_until(problem_, deadline_).offsets);
      improve();
    });
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
      if (options_.decide && bound_ > options_.capacity.value_or(kMaxBytes)) return;
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
  const Deadline& deadline_;
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
  const Deadline deadline(options);
  std::vector<Bytes> first = first_plan(problem, deadline).offsets;  // before bounds, which take as long if it is large
  return PinnedSearch(problem, options, planner, effort, deadline).run(std::move(first));
}

}  // namespace memplan
