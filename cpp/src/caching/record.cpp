#include "caching/record.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

class Undoing {
 public:
  Undoing(CachingRecord&& record, Bytes large_segment) : large_segment_(large_segment) {
    found_.record = std::move(record);
    check();
    found_.block_of.assign(record_.events.size(), kNone);
    for (const CachingSegment& segment : record_.segments)
      if (segment.expandable) {
        map(segment);
        mark_pages(segment);
      } else {
        segments_[segment.address] = segment;
      }
    for (const CachingBlock& block : record_.blocks)
      if (!live_.emplace(block.address, make({block.address, block.requested, block.size, block.pool})).second)
        contradict("two blocks in use begin at " + std::to_string(block.address));
    for (std::size_t i = record_.events.size(); i-- > 0;) undo(i);
    keep_segments();
    number();
    find_sizes();
  }

  UndoneRecord&& found() && { return std::move(found_); }

 private:
  void check() const {
    const auto pools = static_cast<Index>(record_.pools.size());
    const auto refuse = [](const char* what) { throw ProblemError(std::string("record: expected ") + what); };
    const auto fits = [&](Index pool, Bytes size) {
      if (pool < 0 || pool >= pools) refuse("pools that the record has");
      if (size < 0) refuse("sizes >= 0");
    };
    for (const CachingPool& pool : record_.pools)
      if (pool.group < 0 || pool.group > pools) refuse("groups of pools in [0, pools]");
    for (const CachingEvent& event : record_.events) fits(event.pool, event.size);
    for (const CachingSegment& segment : record_.segments) fits(segment.pool, segment.size);
    for (const CachingBlock& block : record_.blocks) {
      fits(block.pool, block.size);
      fits(block.pool, block.requested);
    }
  }

  void contradict(std::string what, std::int64_t event = -1) {
    if (event >= 0) what = "event " + std::to_string(event) + ": " + what;
    if (found_.contradictions++ == 0) found_.contradiction = std::move(what);
  }

  Index make(const UndoneRecord::Block& block) {
    found_.blocks.push_back(block);
    return static_cast<Index>(found_.blocks.size() - 1);
  }

  // The block at an address, which the event is about; one that nothing else knows if there is none.
  Index known(const CachingEvent& event, std::size_t i, const char* why) {
    const auto live = live_.find(event.address);
    if (live != live_.end()) return live->second;
    contradict(why, static_cast<std::int64_t>(i));
    return live_[event.address] = make({event.address, event.size, 0, event.pool});
  }

  void undo(std::size_t i) {
    const CachingEvent& event = record_.events[i];
    Index& block = found_.block_of[i];
    const auto k = static_cast<std::int64_t>(i);
    switch (event.action) {
      case CachingAction::allocate:
        block = known(event, i, "a block that is neither freed nor in use in the end");
        born_.emplace_back(block);
        live_.erase(event.address);
        break;
      case CachingAction::complete_free:
        if (live_.contains(event.address)) contradict("frees a block that is in use afterwards", k);
        block = live_[event.address] = make({event.address, event.size, 0, event.pool});
        break;
      case CachingAction::request_free: block = known(event, i, "asks to free a block that is not known"); break;
      case CachingAction::add_segment:
        if (segments_.erase(event.address) == 0) contradict("adds a segment that is not there afterwards", k);
        break;
      case CachingAction::drop_segment:
        segments_[event.address] = {event.address, event.size, event.pool, event.size == kSmallSegment, false};
        break;
      case CachingAction::map_pages:
        mark_pages(pages_of(event));
        unmap(pages_of(event), k);
        break;
      case CachingAction::unmap_pages:
        mark_pages(pages_of(event));
        map(pages_of(event));
        break;
      case CachingAction::run_out: break;
    }
  }

  // Pages of small blocks come one by one; those of large ones are larger.
  CachingSegment pages_of(const CachingEvent& event) const {
    return {event.address, event.size, event.pool, event.size % large_segment_ != 0, true};
  }

  using Kind = std::pair<Index, bool>;  // a pool, and whether its blocks are small

  void mark_pages(const CachingSegment& pages) {
    Address& begin = begins_.try_emplace({pages.pool, pages.small}, pages.address).first->second;
    begin = std::min(begin, pages.address);
  }

  void map(const CachingSegment& range) {
    auto& ranges = mapped_[{range.pool, range.small}];
    Address begin = range.address, end = begin + static_cast<Address>(range.size);
    auto next = ranges.lower_bound(begin);
    if (next != ranges.begin() && behind(*std::prev(next)) == begin) {
      begin = std::prev(next)->first;
      ranges.erase(std::prev(next));
    }
    if (next != ranges.end() && next->first == end) {
      end = behind(*next);
      ranges.erase(next);
    }
    ranges[begin] = static_cast<Bytes>(end - begin);
  }

  // Takes a range out of what is mapped, which may hang together with more.
  void unmap(const CachingSegment& range, std::int64_t event) {
    auto& ranges = mapped_[{range.pool, range.small}];
    const Address end = range.address + static_cast<Address>(range.size);
    const auto next = ranges.upper_bound(range.address);
    if (next == ranges.begin() || behind(*std::prev(next)) < end)
      return contradict("maps pages that are not there afterwards", event);
    const auto [begin, size] = *std::prev(next);
    ranges.erase(std::prev(next));
    if (begin < range.address) ranges[begin] = static_cast<Bytes>(range.address - begin);
    if (end < begin + static_cast<Address>(size))
      ranges[end] = static_cast<Bytes>(begin + static_cast<Address>(size) - end);
  }

  static Address behind(const std::pair<const Address, Bytes>& range) {
    return range.first + static_cast<Address>(range.second);
  }

  void keep_segments() {
    for (const auto& [kind, ranges] : mapped_) {
      for (const auto& [begin, size] : ranges) segments_[begin] = {begin, size, kind.first, kind.second, true};
      found_.pages.push_back({begins_[kind], 0, kind.first, kind.second, true});
    }
    Address end = 0;
    for (const auto& [address, segment] : segments_) {
      const Address behind = address + static_cast<Address>(segment.size);
      if (address < end || behind < address || segment.size > kMostReserved) {
        contradict("segments at " + std::to_string(address) + " share bytes");
        continue;
      }
      if (segment.expandable && !lies_on_pages(segment)) {
        contradict("the segment at " + std::to_string(address) + " has no whole pages");
        continue;
      }
      found_.segments.push_back(segment);
      end = behind;
    }
  }

  bool lies_on_pages(const CachingSegment& segment) const {
    const Bytes page = segment.small ? kSmallSegment : large_segment_;
    const Address from = segment.address - begins_.at({segment.pool, segment.small});
    return from % static_cast<Address>(page) == 0 && segment.size % page == 0 &&
           from + static_cast<Address>(segment.size) < static_cast<Address>(kPageSpace);
  }

  // Blocks from before the trace come first, by address.
  void number() {
    std::vector<char> later(found_.blocks.size(), 0);
    for (const Index b : born_) later[at(b)] = 1;
    std::vector<Index> order(found_.blocks.size());
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      if (later[at(a)] != later[at(b)]) return later[at(a)] < later[at(b)];
      return later[at(a)] == 0 && found_.blocks[at(a)].address < found_.blocks[at(b)].address;
    });
    std::vector<Index> rank(order.size());
    std::vector<UndoneRecord::Block> blocks;
    blocks.reserve(order.size());
    for (const Index b : order) {
      rank[at(b)] = static_cast<Index>(blocks.size());
      blocks.push_back(found_.blocks[at(b)]);
      found_.before += later[at(b)] == 0;
    }
    found_.blocks = std::move(blocks);
    for (Index& b : found_.block_of)
      if (b != kNone) b = rank[at(b)];
  }

  // Where the trace puts a block, the one before it ends, or the segment begins.
  void find_sizes() {
    std::map<Address, Index> live;
    std::map<Address, Bytes> segments;
    for (const CachingSegment& segment : found_.segments)
      if (!segment.expandable) segments[segment.address] = segment.size;
    for (std::size_t b = 0; b < found_.before; ++b) live[found_.blocks[b].address] = static_cast<Index>(b);
    for (std::size_t i = 0; i < record_.events.size(); ++i) {
      const CachingEvent& event = record_.events[i];
      const Index block = found_.block_of[i];
      if (event.action == CachingAction::add_segment) segments[event.address] = event.size;
      if (event.action == CachingAction::drop_segment) segments.erase(event.address);
      if (event.action == CachingAction::complete_free) live.erase(event.address);
      if (event.action != CachingAction::allocate) continue;
      const auto after = live.lower_bound(event.address);
      const auto segment = segments.upper_bound(event.address);
      if (after != live.begin() && segment != segments.begin()) {
        const auto& [begin, before] = *std::prev(after);
        UndoneRecord::Block& one = found_.blocks[at(before)];
        if (at(before) < found_.before && one.size == 0 && begin >= std::prev(segment)->first)
          one.size = static_cast<Bytes>(event.address - begin);
      }
      live[event.address] = block;
    }
  }

  UndoneRecord found_;
  const CachingRecord& record_ = found_.record;
  const Bytes large_segment_;
  std::unordered_map<Address, Index> live_;
  std::map<Address, CachingSegment> segments_;
  std::map<Kind, std::map<Address, Bytes>> mapped_;
  std::map<Kind, Address> begins_;
  std::vector<Index> born_;  // in the trace
};

}  // namespace

UndoneRecord undone(CachingRecord record, Bytes large_segment) {
  return Undoing(std::move(record), large_segment).found();
}

BegunReplay begin_as_recorded(const UndoneRecord& start, const CachingSettings& settings) {
  BegunReplay begun{CachingAllocator(settings, start.record.pools), std::vector<Index>(start.blocks.size(), kNone)};
  for (const CachingSegment& pages : start.pages) begun.allocator.adopt(pages, {});
  std::size_t b = 0;
  std::vector<CachingAllocator::Standing> used;
  std::vector<std::size_t> which;
  for (const CachingSegment& segment : start.segments) {
    const Address begin = segment.address, end = begin + static_cast<Address>(segment.size);
    used.clear();
    which.clear();
    while (b < start.before && start.blocks[b].address < begin) ++b;  // outside of segments: a contradiction
    for (; b < start.before && start.blocks[b].address < end; ++b) {
      const UndoneRecord::Block& block = start.blocks[b];
      if (!used.empty() && block.address < used.back().address + static_cast<Address>(used.back().size)) continue;
      const Address next = b + 1 < start.before ? std::min(start.blocks[b + 1].address, end) : end;
      const auto room = static_cast<Bytes>(next - block.address);
      Bytes size = block.size > 0 ? block.size : settings.rounded(block.requested);
      const Bytes rest = room - size;
      const bool is_worth_it = segment.small || settings.expandable_segments ? rest >= kSmallest : rest > kSmall;
      if (block.size == 0 && !is_worth_it) size = room;
      if (size <= 0 || size > room) continue;
      used.push_back({block.address, size});
      which.push_back(b);
    }
    const std::vector<Index> made = begun.allocator.adopt(segment, used);
    for (std::size_t k = 0; k < made.size(); ++k) begun.held[which[k]] = made[k];
  }
  return begun;
}

}  // namespace memplan
