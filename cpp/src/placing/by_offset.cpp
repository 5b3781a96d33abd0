#include "placing/by_offset.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/sorting.hpp"

namespace memplan {

namespace {

constexpr std::size_t kEntriesPerBuffer = 4;  // of one level, on average
constexpr std::size_t kShortEnough = 32;      // buffers per part
constexpr std::size_t kMostPerBlock = 1024;
constexpr std::size_t kTicksPerInsertion = 16;  // of the deadline

}  // namespace

ByOffset::ByOffset(const SectionLives& lives, const Deadline& deadline)
    : lives_(lives), offset_(lives.begin.size(), kNowhere) {
  const auto last_section = static_cast<unsigned>(std::max<Index>(lives.sections() - 1, 0));
  const std::size_t buffers = offset_.size();
  for (int shift = std::bit_width(last_section); shift >= 0; --shift) {
    deadline.tick(buffers);
    const std::size_t parts = (last_section >> shift) + 1;
    if (!levels_.empty() && (parts * kShortEnough > buffers || entries_at(shift) > kEntriesPerBuffer * buffers)) break;
    levels_.push_back({shift, std::vector<List>(parts)});
  }
}

std::size_t ByOffset::entries_at(int shift) const {
  std::size_t entries = 0;
  for (std::size_t i = 0; i < offset_.size(); ++i)
    if (lives_.end[i] > lives_.begin[i]) entries += at(((lives_.end[i] - 1) >> shift) - (lives_.begin[i] >> shift)) + 1;
  return entries;
}

const ByOffset::List& ByOffset::shortest_list(Index begin, Index end) const {
  std::size_t level = levels_.size() - 1;
  while (begin >> levels_[level].shift != (end - 1) >> levels_[level].shift) --level;
  return levels_[level].parts[at(begin >> levels_[level].shift)];
}

bool ByOffset::stands_before(const Entry& entry, Index i) const {
  const Bytes of_entry = offset_[at(entry.buffer)];
  const Bytes of_i = offset_[at(i)];
  return of_entry != of_i ? of_entry < of_i : entry.buffer < i;
}

// The block that buffer i is in, or belongs into; the list is not empty.
ByOffset::List::iterator ByOffset::block_of(List& list, Index i) const {
  const auto block =
      std::partition_point(list.begin(), list.end(), [&](const Block& b) { return stands_before(b.back(), i); });
  return block == list.end() ? block - 1 : block;
}

void ByOffset::insert(List& list, Index i) {
  if (list.empty()) list.push_back({});
  const auto block = list.front().empty() ? list.begin() : block_of(list, i);
  const auto place =
      std::partition_point(block->begin(), block->end(), [&](const Entry& entry) { return stands_before(entry, i); });
  block->insert(place, {lives_.begin[at(i)], lives_.end[at(i)], i});
  if (block->size() < kMostPerBlock) return;
  const auto middle = block->begin() + kMostPerBlock / 2;
  Block upper(middle, block->end());
  block->erase(middle, block->end());
  list.insert(block + 1, std::move(upper));
}

void ByOffset::erase(List& list, Index i) {
  const auto block = block_of(list, i);
  block->erase(
      std::partition_point(block->begin(), block->end(), [&](const Entry& entry) { return stands_before(entry, i); }));
  if (block->empty()) list.erase(block);
}

template <class F>
void ByOffset::for_each_list_of(Index i, F&& f) {
  for (Level& level : levels_)
    for (Index part = lives_.begin[at(i)] >> level.shift; part <= (lives_.end[at(i)] - 1) >> level.shift; ++part)
      f(level.parts[at(part)]);
}

void ByOffset::add(Index i, Bytes offset) {
  offset_[at(i)] = offset;
  for_each_list_of(i, [&](List& list) { insert(list, i); });
}

void ByOffset::remove(Index i) {
  for_each_list_of(i, [&](List& list) { erase(list, i); });
  offset_[at(i)] = kNowhere;
}

void ByOffset::assign(std::span<const Bytes> offsets, const Deadline& deadline) {
  offset_.assign(offsets.begin(), offsets.end());
  std::vector<Index> placed;
  for (std::size_t i = 0; i < offset_.size(); ++i)
    if (lives_.end[i] > lives_.begin[i] && offset_[i] != kNowhere) placed.push_back(static_cast<Index>(i));
  for (Level& level : levels_)
    for (List& list : level.parts) list.clear();
  for (const Index i : sorted_by(offset_, std::move(placed))) {
    deadline.tick(kTicksPerInsertion);
    for_each_list_of(i, [&](List& list) {
      if (list.empty() || list.back().size() >= kMostPerBlock / 2) list.push_back({});
      list.back().push_back({lives_.begin[at(i)], lives_.end[at(i)], i});
    });
  }
}

}  // namespace memplan
