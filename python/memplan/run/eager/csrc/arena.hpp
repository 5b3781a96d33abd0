// One arena that serves the allocations of later steps as a recorded step was planned. Nothing of torch or of a device
// is in here: addresses are numbers, and whoever has the memory asks and is told.
//
//   Arena arena(base, bytes, alignment, tracks);  // std::invalid_argument if a slot lies outside
//   arena.begin(thread);                          // a step: allocations are numbered from 0, thread by thread
//   arena.take(thread, size);                     // an address, or 0: take the memory from elsewhere
//   arena.give(address);                          // what was taken, in any order, by any thread, at any time
//
// An address is given out only if nothing that is alive overlaps it, whatever the step does. The tape only says where
// to look. So a step that differs from the tape may cost memory elsewhere, and never correctness:
//
// - An allocation of another size or too many: the order is found again by the sizes nearby.
// - One that is too large for its slot, or whose slot is in use: another place in the arena, which no slot needs for as
//   long as this one lives on the tape. If there is none, memory from elsewhere.
// - One that outlives its step, and did not on the tape: from the next step on it lies outside.
//
// Sizes are bytes. Not safe across threads: the caller holds a lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace memplan::run {

using Bytes = std::int64_t;
using Address = std::uintptr_t;
using Thread = std::uint64_t;  // any number that is the thread's own while it runs

constexpr Bytes kOutside = -1;  // the offset of what outlives its step: it is no part of the plan
constexpr Bytes kAnySize = -1;  // the size of what the plan says nothing of
constexpr int kAnyTrack = -1;   // the one that the first allocations fit

// One allocation of a recorded step. Numbers count the allocations of the step, of all threads.
struct Slot {
  Bytes size;
  Bytes offset;         // in the arena, or kOutside
  std::int64_t number;  // its own
  std::int64_t until;   // that of the first one after its death. In the next step, numbers go on from count + 1
};

// A recorded step: for each of its threads, in order of their first allocations, the allocations in program order.
// The first is the thread that begins the step, even if it allocates nothing.
struct Track {
  std::vector<std::vector<Slot>> lanes;
  std::int64_t count = 0;  // of all slots

  void add(std::size_t lane, Bytes size, Bytes offset, std::int64_t until) {
    if (lane >= lanes.size()) lanes.resize(lane + 1);
    lanes[lane].push_back({size, offset, count++, until});
  }
};

// The bytes in use, as disjoint ranges. All operations are O(log n).
class LiveRanges {
 public:
  struct Live {
    Bytes end;
    Slot* slot;          // of the tape
    std::int64_t count;  // of the tape's slots
  };

  bool is_free(Bytes begin, Bytes end) const {
    const auto after = ranges_.lower_bound(begin);
    if (after != ranges_.end() && after->first < end) return false;
    return after == ranges_.begin() || std::prev(after)->second.end <= begin;
  }

  void add(Bytes begin, const Live& live) { ranges_.emplace(begin, live); }

  // The bytes of the range that begins there; -1 if none does.
  Bytes remove(Bytes begin) {
    const auto found = ranges_.find(begin);
    if (found == ranges_.end()) return -1;
    const Bytes size = found->second.end - begin;
    ranges_.erase(found);
    return size;
  }

  const std::map<Bytes, Live>& by_offset() const { return ranges_; }

 private:
  std::map<Bytes, Live> ranges_;
};

enum class Reason : std::int64_t {
  none,      // the steps were as the tape
  size,      // an allocation has another size
  occupied,  // the slot is in use, as something lives longer than on the tape
  longer,    // more allocations than on the tape
  thread,    // more threads than on the tape
};

// Where a step differed from the tape for the first time.
struct Divergence {
  Reason reason = Reason::none;
  std::int64_t step = -1, track = -1, thread = -1, number = -1;  // number: of the thread's allocations in the step
  Bytes expected = -1, got = -1;
};

struct Counts {
  std::int64_t steps = 0;
  std::int64_t served = 0;   // allocations that lie in the arena
  std::int64_t moved = 0;    // those of them that lie elsewhere than planned
  std::int64_t outside = 0;  // those that outlive their step, and so lie outside
  std::int64_t missed = 0;   // those that lie outside though the plan has a place for them, or knows nothing of them
  Bytes used = 0, peak = 0;  // bytes of the arena in use: now, and at most
};

class Arena {
 public:
  // Allocations that are not where the tape has them are looked for so many places before and behind.
  static constexpr std::size_t kWindow = 64;
  static constexpr Bytes kSmall = 4096;  // below, another place in the arena is not worth the search

  Arena(Address base, Bytes bytes, Bytes alignment, std::vector<Track> tracks)
      : base_(base), bytes_(bytes), alignment_(alignment), tracks_(std::move(tracks)) {
    if (tracks_.empty()) throw std::invalid_argument("an arena needs a plan");
    if (base_ % static_cast<Address>(alignment_) != 0) throw std::invalid_argument("the arena is not aligned");
    for (Track& track : tracks_) {
      track.lanes.resize(std::max<std::size_t>(track.lanes.size(), 1));
      progress_.emplace_back();
      for (const auto& slots : track.lanes) {
        for (const Slot& slot : slots) check_bounds(slot);
        progress_.back().push_back({std::vector<std::uint32_t>(slots.size(), 0), 0, 0});
      }
      by_offset_.push_back(sorted(track));
    }
  }

  Arena(Arena&&) = default;  // slots stay where they are
  Arena(const Arena&) = delete;

  // The next step. `thread` begins it; `track` is which recorded step it follows.
  void begin(Thread thread, int track = kAnyTrack) {
    leave_outside_what_outlives();
    if (track != kAnyTrack) track_ = static_cast<std::size_t>(track);
    choosing_ = track == kAnyTrack && tracks_.size() > 1;
    first_sizes_.clear();
    threads_.assign(1, thread);
    ++step_;
    for (auto& lanes : progress_)
      for (Lane& lane : lanes) lane.next = lane.count = 0;
    began_ = false;
  }

  // An address for `size` > 0 bytes, or 0 if they have to come from elsewhere.
  Address take(Thread thread, Bytes size) {
    if (!std::exchange(began_, true)) ++counts_.steps;
    const std::size_t which = index_of(thread);
    if (which >= kMostThreads) return missed(Reason::thread, which, 0, kAnySize, size);
    if (choosing_ && which == 0) choose(size);
    if (which >= tracks_[track_].lanes.size()) return missed(Reason::thread, which, 0, kAnySize, size);
    Lane& lane = progress_[track_][which];
    const std::size_t number = lane.count++;
    auto& slots = tracks_[track_].lanes[which];
    while (lane.next < slots.size() && is_used(lane, lane.next)) ++lane.next;
    if (lane.next == slots.size()) return look_around(which, number, size, Reason::longer);
    Slot& slot = slots[lane.next];
    if (slot.size != size && slot.size != kAnySize) return look_around(which, number, size, Reason::size);
    use(lane, lane.next++);
    if (slot.offset != kOutside && !fits(slot, size)) note(Reason::occupied, which, number, slot.size, size);
    return place(slot, size);
  }

  // Whether the address lies in the arena; an arena of no bytes has none.
  bool owns(Address address) const { return address - base_ < static_cast<Address>(bytes_); }

  // Take back what `take` gave. False if nothing that is alive begins there.
  bool give(Address address) {
    const Bytes size = live_.remove(static_cast<Bytes>(address - base_));
    if (size < 0) return false;
    counts_.used -= size;
    return true;
  }

  std::size_t live() const { return live_.by_offset().size(); }
  const Counts& counts() const { return counts_; }
  const Divergence& divergence() const { return divergence_; }
  std::size_t track() const { return track_; }

 private:
  static constexpr std::size_t kMostThreads = 1024;  // of a step; the rest is served from elsewhere

  struct Lane {                       // how far a thread of the step has followed its slots
    std::vector<std::uint32_t> used;  // the last step in which a slot was used
    std::size_t next;                 // the slot that should be next
    std::size_t count;                // allocations so far
  };

  void check_bounds(const Slot& slot) const {
    if (slot.offset == kOutside) return;
    const bool inside = slot.size >= 0 && slot.offset >= 0 && slot.size <= bytes_ && slot.offset <= bytes_ - slot.size;
    if (!inside || slot.offset % alignment_ != 0) {
      throw std::invalid_argument("a slot must lie in the arena of " + std::to_string(bytes_) + " bytes, aligned to " +
                                  std::to_string(alignment_) + ", got offset " + std::to_string(slot.offset) +
                                  " and size " + std::to_string(slot.size));
    }
  }

  bool is_used(const Lane& lane, std::size_t slot) const { return lane.used[slot] == step_; }
  void use(Lane& lane, std::size_t slot) const { lane.used[slot] = step_; }

  bool fits(const Slot& slot, Bytes size) const { return live_.is_free(slot.offset, slot.offset + size); }

  std::size_t index_of(Thread thread) {
    for (std::size_t i = 0; i < threads_.size(); ++i)
      if (threads_[i] == thread) return i;
    if (threads_.size() < kMostThreads)
      threads_.push_back(thread);
    else
      return kMostThreads;
    return threads_.size() - 1;
  }

  // The nearest slot of just this size that is not used and free; else the next one, where this fits well. Either way
  // the step goes on behind it. So the order is found again after allocations that are new, gone, swapped or of
  // another size.
  Address look_around(std::size_t which, std::size_t number, Bytes size, Reason reason) {
    Lane& lane = progress_[track_][which];
    auto& slots = tracks_[track_].lanes[which];
    const std::size_t at = lane.next;
    const Bytes expected = at < slots.size() ? slots[at].size : kAnySize;
    note(reason, which, number, expected, size);
    for (std::size_t distance = 1; distance <= kWindow; ++distance) {
      if (at + distance < slots.size() && is_match(which, at + distance, size))
        return follow(which, at + distance, size);
      if (distance <= at && is_match(which, at - distance, size)) return follow(which, at - distance, size);
    }
    if (at == slots.size()) return miss();
    ++lane.next;  // not used: what belongs there may still come
    return place(slots[at], size);
  }

  bool is_match(std::size_t which, std::size_t at, Bytes size) const {
    return tracks_[track_].lanes[which][at].size == size && !is_used(progress_[track_][which], at);
  }

  Address follow(std::size_t which, std::size_t at, Bytes size) {
    Lane& lane = progress_[track_][which];
    use(lane, at);
    lane.next = at + 1;
    return place(tracks_[track_].lanes[which][at], size);
  }

  // In the slot if it has room there, else where no other slot is needed while this one lives on the tape.
  Address place(Slot& slot, Bytes size) {
    if (slot.offset == kOutside) {
      ++counts_.outside;
      return 0;
    }
    if (size <= slot.size && fits(slot, size)) return serve(slot, slot.offset, size);
    const Bytes offset = size < kSmall ? -1 : tightest_gap(slot, size);
    if (offset < 0) return miss();
    ++counts_.moved;
    return serve(slot, offset, size);
  }

  // O(n) for n slots. -1 if no gap is large enough.
  Bytes tightest_gap(const Slot& slot, Bytes size) const {
    Bytes top = 0, found = -1, least = std::numeric_limits<Bytes>::max();
    const auto in_use = [&](Bytes begin, Bytes end) {
      if (begin - top >= size && begin - top < least) {
        found = top;
        least = begin - top;
      }
      top = std::max(top, (end + alignment_ - 1) / alignment_ * alignment_);
    };
    const std::int64_t count = tracks_[track_].count;
    auto live = live_.by_offset().begin();
    const auto live_end = live_.by_offset().end();
    for (const Slot* other : by_offset_[track_]) {
      const bool later = other->number > slot.number && other->number < slot.until;
      if (other->offset == kOutside || !(later || other->number + count + 1 < slot.until)) continue;
      for (; live != live_end && live->first <= other->offset; ++live) in_use(live->first, live->second.end);
      in_use(other->offset, other->offset + other->size);
    }
    for (; live != live_end; ++live) in_use(live->first, live->second.end);
    in_use(bytes_, bytes_);
    return found;
  }

  static std::vector<const Slot*> sorted(const Track& track) {
    std::vector<const Slot*> slots;
    for (const auto& lane : track.lanes)
      for (const Slot& slot : lane)
        if (slot.offset != kOutside) slots.push_back(&slot);
    std::sort(slots.begin(), slots.end(), [](const Slot* a, const Slot* b) { return a->offset < b->offset; });
    return slots;
  }

  // What is alive at the end of its step, and was not on the tape, is probably kept by every step.
  void leave_outside_what_outlives() {
    for (const auto& [begin, live] : live_.by_offset()) {
      if (live.slot->until <= live.count) live.slot->offset = kOutside;
    }
  }

  Address serve(Slot& slot, Bytes offset, Bytes size) {
    live_.add(offset, {offset + size, &slot, tracks_[track_].count});
    ++counts_.served;
    counts_.used += size;
    if (counts_.used > counts_.peak) counts_.peak = counts_.used;
    return base_ + static_cast<Address>(offset);
  }

  Address miss() {
    ++counts_.missed;
    return 0;
  }

  Address missed(Reason reason, std::size_t which, std::size_t number, Bytes expected, Bytes got) {
    note(reason, which, number, expected, got);
    return miss();
  }

  void note(Reason reason, std::size_t which, std::size_t number, Bytes expected, Bytes got) {
    if (divergence_.reason != Reason::none) return;
    const auto count = [](std::size_t value) { return static_cast<std::int64_t>(value); };
    divergence_ = {reason, counts_.steps - 1, count(track_), count(which), count(number), expected, got};
  }

  // Changes to the track whose first allocations are those of the step, if that is another one.
  void choose(Bytes size) {
    const std::size_t at = first_sizes_.size();
    first_sizes_.push_back(size);
    if (agrees(track_, at, size)) return;
    choosing_ = false;
    for (std::size_t other = 0; other < tracks_.size() && !choosing_; ++other) choosing_ = change_to(other);
  }

  bool agrees(std::size_t track, std::size_t at, Bytes size) const {
    const auto& slots = tracks_[track].lanes.front();
    return at < slots.size() && (slots[at].size == size || slots[at].size == kAnySize);
  }

  bool change_to(std::size_t other) {
    for (std::size_t at = 0; at < first_sizes_.size(); ++at)
      if (!agrees(other, at, first_sizes_[at])) return false;
    track_ = other;
    Lane& lane = progress_[other].front();
    lane.next = lane.count = first_sizes_.size() - 1;
    for (std::size_t at = 0; at < lane.next; ++at) use(lane, at);
    return true;
  }

  Address base_;
  Bytes bytes_, alignment_;
  std::vector<Track> tracks_;
  std::vector<std::vector<const Slot*>> by_offset_;  // by track: the slots in the arena
  std::vector<std::vector<Lane>> progress_;          // by track and thread
  std::vector<Thread> threads_;                      // of the step, in order of their first allocations
  std::vector<Bytes> first_sizes_;                   // of the step, while the track is not certain
  std::size_t track_ = 0;
  std::uint32_t step_ = 0;
  bool choosing_ = false;
  bool began_ = true;
  LiveRanges live_;
  Counts counts_;
  Divergence divergence_;
};

}  // namespace memplan::run
