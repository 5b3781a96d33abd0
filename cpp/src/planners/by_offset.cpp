#include "by_offset.hpp"

#include <algorithm>
#include <bit>

namespace memplan {

namespace {

constexpr std::size_t kEntriesPerBuffer = 4;  // of one level, on average
constexpr std::size_t kShortEnough = 32;      // buffers per part

}  // namespace

ByOffset::ByOffset(const SectionLives& lives) : lives_(lives), offset_(lives.begin.size(), kNowhere) {
  const auto last_section = static_cast<unsigned>(std::max<Index>(lives.sections() - 1, 0));
  const std::size_t buffers = offset_.size();
  for (int shift = std::bit_width(last_section); shift >= 0; --shift) {
    const std::size_t parts = (last_section >> shift) + 1;
    if (!levels_.empty() && (parts * kShortEnough > buffers || entries_at(shift) > kEntriesPerBuffer * buffers)) break;
    levels_.push_back({shift, std::vector<List>(parts)});
  }
}

std::size_t ByOffset::entries_at(int shift) const {
  std::size_t entries = 0;
  for (std::size_t i = 0; i < offset_.size(); ++i)
    if (lives_.end[i] > lives_.begin[i])
      entries += static_cast<std::size_t>(((lives_.end[i] - 1) >> shift) - (lives_.begin[i] >> shift)) + 1;
  return entries;
}

const ByOffset::List& ByOffset::shortest_list(Index begin, Index end) const {
  std::size_t level = levels_.size() - 1;
  while (begin >> levels_[level].shift != (end - 1) >> levels_[level].shift) --level;
  return levels_[level].parts[static_cast<std::size_t>(begin >> levels_[level].shift)];
}

ByOffset::List::iterator ByOffset::place_in(List& list, Index i) const {
  const Bytes offset = offset_[static_cast<std::size_t>(i)];
  return std::lower_bound(list.begin(), list.end(), i, [&](const Entry& entry, Index) {
    const Bytes other = offset_[static_cast<std::size_t>(entry.buffer)];
    return other != offset ? other < offset : entry.buffer < i;
  });
}

void ByOffset::add(Index i, Bytes offset) {
  const auto at = static_cast<std::size_t>(i);
  offset_[at] = offset;
  for (Level& level : levels_)
    for (Index part = lives_.begin[at] >> level.shift; part <= (lives_.end[at] - 1) >> level.shift; ++part) {
      List& list = level.parts[static_cast<std::size_t>(part)];
      list.insert(place_in(list, i), {lives_.begin[at], lives_.end[at], i});
    }
}

void ByOffset::remove(Index i) {
  const auto at = static_cast<std::size_t>(i);
  for (Level& level : levels_)
    for (Index part = lives_.begin[at] >> level.shift; part <= (lives_.end[at] - 1) >> level.shift; ++part) {
      List& list = level.parts[static_cast<std::size_t>(part)];
      list.erase(place_in(list, i));
    }
  offset_[at] = kNowhere;
}

void ByOffset::assign(std::span<const Bytes> offsets) {
  offset_.assign(offsets.begin(), offsets.end());
  std::vector<Index> placed;
  for (std::size_t i = 0; i < offset_.size(); ++i)
    if (lives_.end[i] > lives_.begin[i] && offset_[i] != kNowhere) placed.push_back(static_cast<Index>(i));
  std::stable_sort(placed.begin(), placed.end(), [&](Index a, Index b) {
    return offset_[static_cast<std::size_t>(a)] < offset_[static_cast<std::size_t>(b)];
  });
  for (Level& level : levels_) {
    for (List& list : level.parts) list.clear();
    for (const Index i : placed) {
      const auto at = static_cast<std::size_t>(i);
      for (Index part = lives_.begin[at] >> level.shift; part <= (lives_.end[at] - 1) >> level.shift; ++part)
        level.parts[static_cast<std::size_t>(part)].push_back({lives_.begin[at], lives_.end[at], i});
    }
  }
}

}  // namespace memplan
