#include "placing/placed.hpp"

#include <algorithm>

namespace memplan {

namespace {

// What a look for room takes, and what comes after it.
constexpr std::size_t kTicksPerLook = 64;
constexpr std::size_t kTicksPerFreeRun = 16;

}  // namespace

Placed::Placed(const Problem& problem, const Deadline& deadline)
    : problem_(problem), deadline_(deadline), occupancy_(problem) {
  if (problem.conflicts() != nullptr) offset_.assign(problem.size().size(), kNowhere);
  for (const Reserved& range : problem.reserved()) occupancy_.add(range.first, range.last, {range.begin, range.end});
  for (Index i = 0; problem.has_pins() && i < problem.count(); ++i)
    if (problem.pin(i) != kNowhere) add(i, problem.pin(i));
}

void Placed::add(Index i, Bytes offset) {
  if (problem_.size(i) == 0) return;
  problem_.for_each_part(
      i, [&](const Part& part) { occupancy_.add(part.first, part.last, {offset + part.begin, offset + part.end}); });
  if (!offset_.empty()) offset_[at(i)] = offset;
}

std::span<const OffsetRange> Placed::room(Index i) {
  room_.clear();
  Bytes next = 0;  // the lowest offset that nothing seen so far blocks
  const auto pass = [&](Bytes after, Bytes before) {
    if (after >= next) room_.push_back({next, after});
    next = std::max(next, before);
  };
  if (offset_.empty() && problem_.parts(i).empty()) {
    const Bytes size = problem_.size(i);
    for (const ByteRange& range : occupancy_.taken(problem_.first(i), problem_.last(i)))
      pass(range.begin - size, range.end);
  } else {
    for (const Blocked& blocked : blocked_by_others(i)) pass(blocked.after, blocked.before);
  }
  room_.push_back({next, kMaxBytes});
  deadline_.tick(kTicksPerLook + kTicksPerFreeRun * room_.size());
  return room_;
}

// What blocks a buffer of several parts, or in a problem with conflicts; by `after`.
std::span<const Placed::Blocked> Placed::blocked_by_others(Index i) {
  blocked_.clear();
  problem_.for_each_part(i, [&](const Part& part) {
    for (const ByteRange& range : occupancy_.taken(part.first, part.last))
      blocked_.push_back({range.begin - part.end, range.end - part.begin});
  });
  if (!offset_.empty()) {
    problem_.conflicts()->for_each(i, [&](Index other) {
      const Bytes offset = offset_[at(other)];
      if (offset != kNowhere) blocked_.push_back({offset - problem_.size(i), offset + problem_.size(other)});
    });
  }
  std::sort(blocked_.begin(), blocked_.end(), [](const Blocked& a, const Blocked& b) { return a.after < b.after; });
  return blocked_;
}

Bytes lowest_fit(std::span<const OffsetRange> room, Bytes alignment) {
  for (const OffsetRange& run : room)
    if (const Bytes offset = align_up(run.lowest, alignment); offset <= run.highest) return offset;
  return align_up(room.back().lowest, alignment);
}

Bytes tightest_fit(std::span<const OffsetRange> room, Bytes alignment) {
  Bytes best = -1;
  Bytes best_width = kMaxBytes;
  for (const OffsetRange& run : room.first(room.size() - 1)) {
    const Bytes offset = align_up(run.lowest, alignment);
    if (offset > run.highest || run.highest - run.lowest >= best_width) continue;
    best = offset;
    best_width = run.highest - run.lowest;
  }
  return best >= 0 ? best : align_up(room.back().lowest, alignment);
}

}  // namespace memplan
