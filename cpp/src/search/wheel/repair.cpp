#include "search/wheel/repair.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace memplan {

namespace {

constexpr std::int64_t kWorkPerSearch = 32;  // what a look takes beside what it looks at
constexpr std::size_t kAlsoTried = 8;        // other buffers that are out, per turn

// Size times length, in 31 bits.
std::vector<std::int64_t> prices(const Problem& problem, const SectionLives& lives) {
  Bytes largest = 1;
  for (const Bytes size : problem.size()) largest = std::max(largest, size);
  const int size_shift = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest))) - 16);
  const int length_shift =
      std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint32_t>(lives.sections()))) - 15);
  std::vector<std::int64_t> prices(problem.size().size());
  for (std::size_t i = 0; i < prices.size(); ++i)
    prices[i] = 1 + (problem.size()[i] >> size_shift) * (std::int64_t{lives.end[i] - lives.begin[i]} >> length_shift);
  return prices;
}

}  // namespace

Repair::Repair(const Problem& problem, const SectionLives& lives, const Deadline& deadline)
    : problem_(problem),
      lives_(lives),
      plain_(!problem.has_shapes() && problem.conflicts() == nullptr),
      placed_(lives, deadline),
      price_(prices(problem, lives)) {}

void Repair::begin(std::span<const Bytes> offsets, std::vector<Index> out, std::span<const Rank> ranks, Bytes target,
                   Fit fit, const Deadline& deadline) {
  placed_.assign(offsets, deadline);
  out_ = std::move(out);
  rank_.assign(ranks.begin(), ranks.end());
  target_ = target;
  fit_ = fit;
  may_begin_again_ = true;
  moved_.clear();
  work_ += 64 * std::int64_t{problem_.count()};
}

void Repair::begin_again(std::vector<Index> out, std::span<const Rank> ranks) {
  take_back(0);
  out_ = std::move(out);
  rank_.assign(ranks.begin(), ranks.end());
  work_ += problem_.count();
}

bool Repair::turn(Chance& chance, const Deadline& deadline, std::size_t more) {
  deadline_ = &deadline;
  work_ += 16;
  if (!may_begin_again_) moved_.clear();
  const std::size_t moves_before = moved_.size();
  const std::vector<Index> out_before = out_;
  const std::size_t allowed = out_before.size() + more;
  const std::size_t drawn = chance.below(out_.size());
  const Index promoted = out_[drawn];
  const Rank rank_before = rank_[at(promoted)];
  out_[drawn] = out_.back();
  out_.pop_back();
  promote(promoted, chance);
  if (place_all({promoted}, allowed)) {
    std::vector<Index> others;
    for (std::size_t k = 0; k < kAlsoTried && !out_.empty(); ++k) {
      const std::size_t other = chance.below(out_.size());
      others.push_back(out_[other]);
      out_[other] = out_.back();
      out_.pop_back();
    }
    if (place_all(std::move(others), allowed)) return true;
  }
  take_back(moves_before);
  rank_[at(promoted)] = rank_before;
  out_ = out_before;
  return false;
}

bool Repair::ranks_before(Index a, Index b) const {
  const Rank of_a = rank_[at(a)];
  const Rank of_b = rank_[at(b)];
  return of_a != of_b ? of_a < of_b : a < b;
}

void Repair::note_looks(std::size_t buffers) {
  work_ += static_cast<std::int64_t>(buffers);
  deadline_->tick(1 + buffers);
}

// What is in the way of buffer i, by `after`; only what may reach below `below`.
void Repair::find_blocked(Index i, Bytes below) {
  blocked_.clear();
  note_looks(placed_.visit(i, [&](Index other) {
    if (placed_.offset(other) >= below) return false;
    if (other != i) block(i, other);
    return true;
  }));
  if (plain_) return;
  work_ += 8 * static_cast<std::int64_t>(blocked_.size());
  if (problem_.conflicts() != nullptr)
    problem_.conflicts()->for_each(i, [&](Index other) {
      if (placed_.offset(other) != kNowhere && problem_.size(other) > 0)
        blocked_.push_back(
            {placed_.offset(other) - problem_.size(i), placed_.offset(other) + problem_.size(other), other});
    });
  std::sort(blocked_.begin(), blocked_.end(), [](const Blocked& a, const Blocked& b) {
    return a.after != b.after ? a.after < b.after : a.buffer < b.buffer;
  });
}

void Repair::block(Index i, Index by) {
  const Bytes offset = placed_.offset(by);
  if (plain_) {
    blocked_.push_back({offset - problem_.size(i), offset + problem_.size(by), by});
    return;
  }
  problem_.for_each_part(i, [&](const Part& mine) {
    problem_.for_each_part(by, [&](const Part& part) {
      if (mine.first < part.last && part.first < mine.last)
        blocked_.push_back({offset + part.begin - mine.end, offset + part.end - mine.begin, by});
    });
  });
}

// Where buffer i goes below the target: into a free run if there is one, else where those of lower rank in its way
// cost least; kNowhere when those of higher rank leave no room.
Bytes Repair::find_place(Index i) {
  const Bytes top = target_ - problem_.size(i);  // the highest offset allowed
  work_ += kWorkPerSearch;
  if (top < 0) return kNowhere;
  find_blocked(i, target_);
  open_.clear();
  Bytes next_free = 0;
  Bytes next_open = 0;
  Bytes best = kNowhere;
  Bytes best_width = std::numeric_limits<Bytes>::max();
  const auto try_run = [&](Bytes lowest, Bytes highest) {
    const Bytes offset = align_up(lowest, problem_.alignment(i));
    if (offset > highest || (fit_ == Fit::kLowest ? best != kNowhere : highest - lowest >= best_width)) return;
    best = offset;
    best_width = highest - lowest;
  };
  for (const Blocked& b : blocked_) {
    if (b.after >= top) break;
    if (b.after >= next_free) try_run(next_free, b.after);
    next_free = std::max(next_free, b.before);
    if (!ranks_before(b.buffer, i)) continue;
    if (b.after >= next_open) open_.push_back({next_open, b.after});
    next_open = std::max(next_open, b.before);
  }
  if (next_free <= top) try_run(next_free, top);
  if (best != kNowhere) return best;
  if (next_open <= top) open_.push_back({next_open, top});
  return open_.empty() ? kNowhere : cheapest_place(i, top);
}

// The cost of an offset is constant between the ends of what is in the way: only the lowest offset of an open run,
// and the ends of movable buffers within one, can be cheapest.
Bytes Repair::cheapest_place(Index i, Bytes top) {
  movable_.clear();
  std::vector<Bytes> candidates;
  const Bytes alignment = problem_.alignment(i);
  const auto propose = [&](Bytes from, Bytes highest) {
    const Bytes offset = align_up(from, alignment);
    if (offset <= highest) candidates.push_back(offset);
  };
  for (const OffsetRange& run : open_) propose(run.lowest, run.highest);
  for (const Blocked& b : blocked_) {
    if (b.after >= top) break;
    if (ranks_before(b.buffer, i)) continue;
    const auto run =
        std::partition_point(open_.begin(), open_.end(), [&](const OffsetRange& r) { return r.highest <= b.after; });
    if (run == open_.end() || b.before <= run->lowest) continue;
    movable_.push_back(b);
    const auto at = std::partition_point(run, open_.end(), [&](const OffsetRange& r) { return r.highest < b.before; });
    if (at != open_.end() && at->lowest <= b.before) propose(b.before, at->highest);
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<Blocked> by_before = movable_;
  std::sort(by_before.begin(), by_before.end(), [](const Blocked& a, const Blocked& b) { return a.before < b.before; });
  work_ += static_cast<std::int64_t>(4 * movable_.size());
  std::int64_t cost = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Bytes best = kNowhere;
  auto entering = movable_.begin();
  auto leaving = by_before.begin();
  for (const Bytes offset : candidates) {
    for (; entering != movable_.end() && entering->after < offset; ++entering) cost += price_[at(entering->buffer)];
    for (; leaving != by_before.end() && leaving->before <= offset; ++leaving) cost -= price_[at(leaving->buffer)];
    if (cost >= least) continue;
    least = cost;
    best = offset;
  }
  return best;
}

// Draws one of those that rank before buffer i and are alive with it, near ranks as likely as far ones on a logarithmic
// scale, and ranks i just before it.
void Repair::promote(Index i, Chance& chance) {
  neighbours_.clear();
  note_looks(placed_.visit(i, [&](Index other) {
    if (other != i && ranks_before(other, i) && rank_[at(other)] != kFixedRank) neighbours_.push_back(other);
    return true;
  }));
  if (neighbours_.empty()) return;
  const std::size_t count = neighbours_.size();
  const std::size_t octave = std::size_t{1} << chance.below(static_cast<std::size_t>(std::bit_width(count)));
  const std::size_t steps = std::min(count, octave + chance.below(octave));
  const auto passed = neighbours_.begin() + static_cast<std::ptrdiff_t>(count - steps);
  const auto by_rank = [&](Index a, Index b) { return ranks_before(a, b); };
  std::nth_element(neighbours_.begin(), passed, neighbours_.end(), by_rank);
  const auto room_before = [&] {
    const Rank high = rank_[at(*passed)];
    if (passed == neighbours_.begin()) return kRankGap;
    return high - rank_[at(*std::max_element(neighbours_.begin(), passed, by_rank))];
  };
  if (room_before() < 2) spread_ranks();
  rank_[at(i)] = rank_[at(*passed)] - room_before() / 2;
}

// The same order, with room between the ranks.
void Repair::spread_ranks() {
  std::vector<Index> order(rank_.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<Index>(k);
  std::sort(order.begin(), order.end(), deadline_->ticking([&](Index a, Index b) { return ranks_before(a, b); }));
  for (std::size_t k = 0; k < order.size(); ++k)
    if (Rank& rank = rank_[at(order[k])]; rank != kFixedRank) rank = static_cast<Rank>(k) * kRankGap;
  work_ += 16 * static_cast<std::int64_t>(order.size());
}

void Repair::move(Index i, Bytes offset) {
  const Bytes from = placed_.offset(i);
  moved_.push_back({i, from});
  if (from != kNowhere) placed_.remove(i);
  if (offset != kNowhere) placed_.add(i, offset);
}

// Places those that wait, the first in rank first; what finds no place is out. False as soon as more than `allowed`
// are.
bool Repair::place_all(std::vector<Index> waiting, std::size_t allowed) {
  const auto later = [&](Index a, Index b) { return ranks_before(b, a); };
  std::make_heap(waiting.begin(), waiting.end(), later);
  while (!waiting.empty()) {
    std::pop_heap(waiting.begin(), waiting.end(), later);
    const Index i = waiting.back();
    waiting.pop_back();
    const Bytes offset = find_place(i);
    if (offset == kNowhere) {
      out_.push_back(i);
      if (out_.size() > allowed) return false;
      continue;
    }
    for (const Blocked& b : blocked_)
      if (b.after < offset && offset < b.before && placed_.offset(b.buffer) != kNowhere) {
        move(b.buffer, kNowhere);
        waiting.push_back(b.buffer);
        std::push_heap(waiting.begin(), waiting.end(), later);
      }
    move(i, offset);
  }
  return true;
}

void Repair::take_back(std::size_t moves) {
  while (moved_.size() > moves) {
    const auto [i, from] = moved_.back();
    moved_.pop_back();
    if (placed_.offset(i) != kNowhere) placed_.remove(i);
    if (from != kNowhere) placed_.add(i, from);
  }
}

std::vector<Bytes> Repair::completed(const Deadline& deadline) {
  deadline_ = &deadline;
  const std::size_t moves_before = moved_.size();
  std::vector<Index> order = out_;
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    return problem_.size(a) != problem_.size(b) ? problem_.size(a) > problem_.size(b) : a < b;
  });
  for (const Index i : order) {
    find_blocked(i, kMaxBytes);
    Bytes offset = 0;
    for (const Blocked& b : blocked_) {
      if (b.after >= offset) break;
      if (b.before > offset) offset = align_up(b.before, problem_.alignment(i));
    }
    move(i, offset);
  }
  std::vector<Bytes> offsets(placed_.offsets().begin(), placed_.offsets().end());
  for (Bytes& offset : offsets) offset = std::max<Bytes>(offset, 0);  // what has no bytes is nowhere
  take_back(moves_before);
  return offsets;
}

}  // namespace memplan
