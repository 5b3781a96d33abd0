#include "squeaky_wheel.hpp"

#include <algorithm>
#include <array>

#include "in_order.hpp"
#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "planners.hpp"

namespace memplan {

namespace {

enum class Order { kLoadLength, kLoadSize, kSize, kLength, kArea, kBirth };

struct Start {
  Order order;
  Fit fit;
};

constexpr std::array<Start, SqueakyWheel::kStarts> kStart = {{
    {Order::kLoadLength, Fit::kTightest},
    {Order::kSize, Fit::kTightest},
    {Order::kLoadSize, Fit::kLowest},
    {Order::kLength, Fit::kTightest},
    {Order::kLoadLength, Fit::kLowest},
    {Order::kSize, Fit::kLowest},
    {Order::kLoadSize, Fit::kTightest},
    {Order::kLength, Fit::kLowest},
    {Order::kArea, Fit::kTightest},
    {Order::kArea, Fit::kLowest},
    {Order::kBirth, Fit::kTightest},
    {Order::kBirth, Fit::kLowest},
}};

constexpr Rank kRankGap = Rank{1} << 24;
constexpr std::size_t kMostWaiting = 4;
constexpr std::size_t kNoAttempt = static_cast<std::size_t>(-1);
constexpr std::int64_t kWorkPerStart = 2000;  // what placing a buffer by a start costs, in buffers looked at
constexpr std::size_t kBetweenLooks = 256;    // buffers placed between two looks at the clock
constexpr std::size_t kFewOut = 16;           // so few that completing the plan costs little

}  // namespace

SqueakyWheel::SqueakyWheel(const Problem& problem, std::uint64_t seed, Bytes bound)
    : problem_(problem), bound_(bound), lives_(section_lives(problem)), repair_(problem, lives_), chance_(seed) {
  slice_ = 500'000 + 500 * problem.count();
}

std::vector<Rank> SqueakyWheel::ranks_of(std::size_t k) const {
  using Key = std::array<std::int64_t, 3>;
  const std::size_t count = problem_.size().size();
  const std::vector<Bytes> covered = load_covered(lives_);
  std::vector<Key> keys(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes size = problem_.size()[i];
    const std::int64_t length = lives_.end[i] - lives_.begin[i];
    switch (kStart[k].order) {
      case Order::kLoadLength: keys[i] = {-covered[i], -length, -size}; break;
      case Order::kLoadSize: keys[i] = {-covered[i], -size, -length}; break;
      case Order::kSize: keys[i] = {-size, -length, 0}; break;
      case Order::kLength: keys[i] = {-length, -size, 0}; break;
      case Order::kArea: {
        const double area = static_cast<double>(size) * static_cast<double>(length);
        keys[i] = {-static_cast<std::int64_t>(std::min(area, 9e18)), -size, 0};
        break;
      }
      case Order::kBirth: keys[i] = {lives_.begin[i], -size, 0}; break;
    }
  }
  std::vector<Index> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<Index>(i);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    const Key& of_a = keys[static_cast<std::size_t>(a)];
    const Key& of_b = keys[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a < of_b : a < b;
  });
  std::vector<Rank> ranks(count);
  for (std::size_t p = 0; p < count; ++p) ranks[static_cast<std::size_t>(order[p])] = static_cast<Rank>(p) * kRankGap;
  return ranks;
}

bool SqueakyWheel::start(std::size_t k, const Deadline& deadline) {
  Attempt attempt{std::vector<Bytes>(problem_.size().size(), kNowhere), ranks_of(k), bound_, kStart[k].fit, 0};
  std::vector<Index> order = with_bytes(problem_);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    return attempt.ranks[static_cast<std::size_t>(a)] < attempt.ranks[static_cast<std::size_t>(b)];
  });
  const std::size_t most_out = 64 + order.size() / 64;
  Placed placed(problem_);
  std::size_t looked = 0;
  for (const Index i : order) {
    if (++looked % kBetweenLooks == 0 && deadline.passed()) return false;
    work_ += kWorkPerStart;
    const auto room = placed.room(i);
    const Bytes offset = (attempt.fit == Fit::kLowest ? lowest_fit : tightest_fit)(room, problem_.alignment(i));
    if (offset > bound_ - problem_.size(i)) {
      if (++attempt.out > most_out && peak_ != kMaxBytes) return false;
      continue;
    }
    attempt.offsets[static_cast<std::size_t>(i)] = offset;
    placed.add(i, offset);
  }
  resume(attempt);
  const bool better = keep_if_better(repair_.completed());
  if (!repair_.done()) waiting_.push_back(std::move(attempt));
  turn_of_ = waiting_.size() - 1;
  return better;
}

bool SqueakyWheel::offer(std::span<const Bytes> offsets) {
  return keep_if_better(std::vector<Bytes>(offsets.begin(), offsets.end()));
}

bool SqueakyWheel::keep_if_better(std::vector<Bytes> offsets) {
  const Bytes peak = peak_of(problem_, offsets);
  if (peak >= peak_) return false;
  peak_ = peak;
  best_ = std::move(offsets);
  return true;
}

void SqueakyWheel::resume(const Attempt& attempt) {
  repair_.begin(attempt.offsets, attempt.ranks, attempt.target, attempt.fit);
  work_ += 20 * problem_.count();
  fit_ = attempt.fit;
  active_ = true;
  slice_end_ = work() + slice_;
}

SqueakyWheel::Attempt SqueakyWheel::suspended() const {
  return {{repair_.offsets().begin(), repair_.offsets().end()},
          {repair_.ranks().begin(), repair_.ranks().end()},
          repair_.target(),
          fit_,
          repair_.out().size()};
}

// Repairs the best plan at a target part of the way to the bound.
void SqueakyWheel::descend() {
  const Bytes way = peak_ - bound_;
  const Bytes target = peak_ - std::max<Bytes>(1, way >> std::min(halvings_, 62));
  turn_of_ = kNoAttempt;
  resume({best_, ranks_of(0), target, Fit::kTightest, 0});
}

void SqueakyWheel::next_attempt(const Deadline& deadline) {
  if (active_ && turn_of_ != kNoAttempt && turn_of_ < waiting_.size()) waiting_[turn_of_] = suspended();
  if (active_ && turn_of_ == kNoAttempt && !repair_.done()) ++halvings_;
  active_ = false;
  if (next_start_ < kStarts) {
    start(next_start_++, deadline);
    if (waiting_.size() > kMostWaiting) {
      std::stable_sort(waiting_.begin(), waiting_.end(), [](const Attempt& a, const Attempt& b) { return a.out < b.out; });
      waiting_.pop_back();
    }
    return;
  }
  descend();
}

bool SqueakyWheel::step(std::int64_t work_allowed, const Deadline& deadline, Bytes enough) {
  const std::int64_t end = work() + work_allowed;
  const Bytes before = peak_;
  enough = std::max(enough, bound_);
  while (peak_ > enough && work() < end && !deadline.passed()) {
    if (!active_ || work() >= slice_end_) {
      next_attempt(deadline);
      continue;
    }
    const std::size_t out = repair_.out().size();
    const bool kept = repair_.turn(chance_);
    const std::size_t now = repair_.out().size();
    if (kept && now <= kFewOut && (now < out || now == 0)) keep_if_better(repair_.completed());
    if (repair_.done()) {
      if (turn_of_ == kNoAttempt) halvings_ = std::max(0, halvings_ - 1);
      active_ = false;
      turn_of_ = kNoAttempt;
    }
  }
  return peak_ < before;
}

Placement squeaky_wheel(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  const Bytes bound = load(problem);
  SqueakyWheel search(problem, options.seed, bound);
  const Bytes enough = std::max(bound, options.capacity.value_or(0));
  std::int64_t work = options.get(kSqueakyWheel[0]) * kWorkPerStart;
  const std::int64_t slice = 1'000'000;
  search.start(0, Deadline());
  while (search.peak() > enough && search.work() < work && !deadline.passed())
    if (search.step(std::min(slice, work - search.work()), deadline, enough) && options.improved)
      options.improved({search.best(), search.peak(), 0, {}});
  Placement placement;
  placement.offsets.assign(search.best().begin(), search.best().end());
  return placement;
}

}  // namespace memplan
