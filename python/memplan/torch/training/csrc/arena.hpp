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
// - An allocation of another size, or one too many: the order is found again by the sizes nearby (follower.hpp).
// - One that is too large for its slot, or whose slot is in use: another place in the arena, which no slot needs for as
//   long as this one lives on the tape. If there is none, memory from elsewhere.
// - One that outlives its step, and did not on the tape: from the next step on it lies outside.
//
// Sizes are bytes. Not safe across threads: the caller holds a lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "slots.hpp"

namespace memplan::run {

constexpr int kAnyTrack = -1;  // the one that the first allocations fit

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
  Bytes missed_bytes = 0;    // what those asked for
  Bytes used = 0, peak = 0;  // bytes of the arena in use: now, and at most
};

class Arena {
 public:
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
        progress_.back().push_back(follower_of(slots));
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
    for (auto& lanes : progress_)
      for (Follower& lane : lanes) lane.begin();
    began_ = false;
  }

  // An address for `size` > 0 bytes, or 0 if they have to come from elsewhere.
  Address take(Thread thread, Bytes size) {
    if (!std::exchange(began_, true)) ++counts_.steps;
    const std::size_t which = index_of(thread);
    if (which >= kMostThreads) return missed(Reason::thread, which, 0, kAnySize, size);
    if (choosing_ && which == 0) choose(size);
    if (which >= tracks_[track_].lanes.size()) return missed(Reason::thread, which, 0, kAnySize, size);
    Follower& lane = progress_[track_][which];
    const std::size_t number = lane.count();
    const Follower::Found found = lane.next(size);
    if (found.slot == lane.size()) return missed(Reason::longer, which, number, kAnySize, size);
    Slot& slot = tracks_[track_].lanes[which][found.slot];
    if (!found.as_recorded)
      note(Reason::size, which, number, found.expected, size);
    else if (slot.offset != kOutside && !fits(slot, size))
      note(Reason::occupied, which, number, slot.size, size);
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

  static Follower follower_of(const std::vector<Slot>& slots) {
    std::vector<Bytes> sizes;
    for (const Slot& slot : slots) sizes.push_back(slot.size);
    return Follower(std::move(sizes));
  }

  void check_bounds(const Slot& slot) const {
    if (slot.offset == kOutside) return;
    const bool inside = slot.size >= 0 && slot.offset >= 0 && slot.size <= bytes_ && slot.offset <= bytes_ - slot.size;
    if (!inside || slot.offset % alignment_ != 0) {
      throw std::invalid_argument("a slot must lie in the arena of " + std::to_string(bytes_) + " bytes, aligned to " +
                                  std::to_string(alignment_) + ", got offset " + std::to_string(slot.offset) +
                                  " and size " + std::to_string(slot.size));
    }
  }

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

  // In the slot if it has room there, else where no other slot is needed while this one lives on the tape.
  Address place(Slot& slot, Bytes size) {
    if (slot.offset == kOutside) {
      ++counts_.outside;
      return 0;
    }
    if (size <= slot.size && fits(slot, size)) return serve(slot, slot.offset, size);
    const Bytes offset = size < kSmall ? -1 : tightest_gap(slot, size);
    if (offset < 0) return miss(size);
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

  Address miss(Bytes size) {
    ++counts_.missed;
    counts_.missed_bytes += size;
    return 0;
  }

  Address missed(Reason reason, std::size_t which, std::size_t number, Bytes expected, Bytes got) {
    note(reason, which, number, expected, got);
    return miss(got);
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
    for (std::size_t at = 0; at + 1 < first_sizes_.size(); ++at) progress_[other].front().next(first_sizes_[at]);
    return true;
  }

  Address base_;
  Bytes bytes_, alignment_;
  std::vector<Track> tracks_;
  std::vector<std::vector<const Slot*>> by_offset_;  // by track: the slots in the arena
  std::vector<std::vector<Follower>> progress_;      // by track and thread
  std::vector<Thread> threads_;                      // of the step, in order of their first allocations
  std::vector<Bytes> first_sizes_;                   // of the step, while the track is not certain
  std::size_t track_ = 0;
  bool choosing_ = false;
  bool began_ = true;
  LiveRanges live_;
  Counts counts_;
  Divergence divergence_;
};

}  // namespace memplan::run
