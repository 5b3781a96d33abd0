#include "problem/shift.hpp"

#include <algorithm>
#include <numeric>

#include "memplan/occupancy.hpp"

namespace memplan {

namespace {

bool is_free(const Problem& problem, Index i) { return problem.size(i) > 0 && problem.pin(i) == kNowhere; }

// What is pinned and reserved, without conflicts beyond lifetimes.
class Fixed {
 public:
  explicit Fixed(const Problem& problem) : problem_(problem), taken_(problem) {
    for (const Reserved& range : problem.reserved()) taken_.add(range.first, range.last, {range.begin, range.end});
    for (Index i = 0; i < problem.count(); ++i) {
      const Bytes pin = problem.pin(i);
      if (pin == kNowhere || problem.size(i) == 0) continue;
      problem.for_each_part(
          i, [&](const Part& part) { taken_.add(part.first, part.last, {pin + part.begin, pin + part.end}); });
    }
  }

  // Where a buffer may begin at the lowest.
  Bytes lowest(Index i) {
    blocked_.clear();
    problem_.for_each_part(i, [&](const Part& part) {
      for (const ByteRange& range : taken_.taken(part.first, part.last))
        if (range.end > part.begin) blocked_.push_back({range.begin - part.end, range.end - part.begin});
    });
    std::sort(blocked_.begin(), blocked_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    Bytes lowest = 0;
    for (const ByteRange& range : blocked_) {
      if (lowest <= range.begin) break;
      lowest = std::max(lowest, align_up(range.end, problem_.alignment(i)));
    }
    return lowest;
  }

 private:
  const Problem& problem_;
  Occupancy taken_;
  std::vector<ByteRange> blocked_;  // offsets between these two, both excluded
};

// The lowest address at which a free buffer may begin; 0 where there is none.
Bytes lowest_free(const Problem& problem) {
  Fixed fixed(problem);
  Bytes low = kMaxBytes;
  for (Index i = 0; i < problem.count() && low > 0; ++i)
    if (is_free(problem, i)) low = std::min(low, fixed.lowest(i));
  return low == kMaxBytes ? 0 : low;
}

// What all alignments divide; nothing where that is more than `most`.
std::optional<Bytes> common_multiple(const Problem& problem, Bytes most) {
  Bytes unit = 1;
  for (Index i = 0; i < problem.count(); ++i) {
    const Bytes other = problem.alignment(i) / std::gcd(unit, problem.alignment(i));
    if (problem.size(i) == 0) continue;
    if (unit > most / other) return std::nullopt;
    unit *= other;
  }
  return unit;
}

// A multiple of all alignments, below which nothing free can lie and at which no pin is cut in two.
Bytes lowest(const Problem& problem) {
  Bytes low = lowest_free(problem);
  const std::optional<Bytes> unit = common_multiple(problem, low);
  if (!unit) return 0;
  std::vector<std::pair<Bytes, Bytes>> pins;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.pin(i) != kNowhere) pins.emplace_back(problem.pin(i) + problem.size(i), problem.pin(i));
  std::sort(pins.rbegin(), pins.rend());
  low -= low % *unit;
  for (const auto& [end, begin] : pins)
    if (begin < low && low < end) low = begin - begin % *unit;
  return low;
}

Problem above(const Problem& problem, Bytes by, const std::vector<Index>& kept) {
  std::vector<Bytes> pins;
  for (const Index i : kept) pins.push_back(problem.pin(i) == kNowhere ? kNowhere : problem.pin(i) - by);
  std::vector<Reserved> reserved;
  for (Reserved range : problem.reserved()) {
    if (range.end <= by) continue;
    range.begin = std::max(range.begin, by) - by;
    range.end -= by;
    reserved.push_back(range);
  }
  return problem.with_pins({}).subset(kept).with_pins(std::move(pins), std::move(reserved));
}

// Buffers that are left: those with bytes, but for what is pinned below.
std::vector<Index> left(const Problem& problem, Bytes by) {
  std::vector<Index> kept;
  for (Index i = 0; i < problem.count(); ++i)
    if (is_free(problem, i) || (problem.size(i) > 0 && problem.pin(i) >= by)) kept.push_back(i);
  return kept;
}

}  // namespace

std::optional<Shift> Shift::of(const Problem& problem) {
  if (!problem.has_pins() && problem.reserved().empty()) return std::nullopt;
  const Bytes by = lowest(problem);
  if (by == 0) return std::nullopt;
  return Shift(problem, by);
}

Shift::Shift(const Problem& problem, Bytes by)
    : by_(by), kept_(left(problem, by)), offsets_(problem.size().size(), 0), shifted_(above(problem, by, kept_)) {
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.pin(i) != kNowhere) offsets_[at(i)] = problem.pin(i);
}

std::vector<Bytes> Shift::shifted(std::span<const Bytes> offsets) const {
  std::vector<Bytes> shifted;
  for (const Index i : kept_) shifted.push_back(offsets[at(i)] < by_ ? kNowhere : offsets[at(i)] - by_);
  return shifted;
}

std::vector<Bytes> Shift::unshifted(std::span<const Bytes> shifted) const {
  std::vector<Bytes> all = offsets_;
  for (std::size_t k = 0; k < kept_.size(); ++k) all[at(kept_[k])] = shifted[k] + by_;
  return all;
}

}  // namespace memplan
