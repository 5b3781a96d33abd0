// One arena that serves the allocations of later steps as a recorded step was planned. Nothing of torch or of a device
// is in here: addresses are numbers, and whoever has the memory asks and is told.
//
//   Arena arena(base, bytes, alignment, tracks);  // std::invalid_argument if a slot lies outside
//   arena.begin(thread);                          // a step: allocations are numbered from 0, thread by thread
//   arena.take(thread, size);                     // an address, or 0: take the memory from elsewhere
//   arena.give(address);                          // what was taken, in any order, by any thread, at any time
//
// An address is given out only if nothing that is alive overlaps it, whatever the step does. The tape only says where
// to look. So a step that differs from the tape costs memory elsewhere, and never correctness.
//
// Sizes are bytes. Not safe across threads: the caller holds a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
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

// One allocation of a recorded step.
struct Slot {
  Bytes size;
  Bytes offset;  // in the arena, or kOutside
};

// A recorded step: for each of its threads, in order of their first allocations, the allocations in program order.
// The first is the thread that begins the step, even if it allocates nothing.
using Track = std::vector<std::vector<Slot>>;

// The bytes in use, as disjoint ranges. All operations are O(log n).
class LiveRanges {
 public:
  bool is_free(Bytes begin, Bytes end) const {
    const auto after = ends_.lower_bound(begin);
    if (after != ends_.end() && after->first < end) return false;
    return after == ends_.begin() || std::prev(after)->second <= begin;
  }

  void add(Bytes begin, Bytes end) { ends_.emplace(begin, end); }

  // The bytes of the range that begins there; -1 if none does.
  Bytes remove(Bytes begin) {
    const auto found = ends_.find(begin);
    if (found == ends_.end()) return -1;
    const Bytes size = found->second - begin;
    ends_.erase(found);
    return size;
  }

  std::size_t count() const { return ends_.size(); }

 private:
  std::map<Bytes, Bytes> ends_;
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
  std::int64_t outside = 0;  // those that the plan leaves outside
  std::int64_t missed = 0;   // those that lie outside though the plan has a place for them, or knows nothing of them
  Bytes used = 0, peak = 0;  // bytes of the arena in use: now, and at most
};

class Arena {
 public:
  // Allocations that are not where the tape has them are looked for so many places before and behind.
  static constexpr std::size_t kWindow = 64;

  Arena(Address base, Bytes bytes, Bytes alignment, std::vector<Track> tracks)
      : base_(base), bytes_(bytes), tracks_(std::move(tracks)) {
    if (tracks_.empty()) throw std::invalid_argument("an arena needs a plan");
    check_bounds(alignment);
    for (const Track& track : tracks_) {
      progress_.emplace_back();
      for (const auto& slots : track) progress_.back().push_back({std::vector<std::uint32_t>(slots.size(), 0), 0, 0});
    }
  }

  // The next step. `thread` begins it; `track` is which recorded step it follows.
  void begin(Thread thread, int track = kAnyTrack) {
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
    if (which >= tracks_[track_].size()) return missed(Reason::thread, which, 0, kAnySize, size);
    Lane& lane = progress_[track_][which];
    const std::size_t number = lane.count++;
    const auto& slots = tracks_[track_][which];
    while (lane.next < slots.size() && is_used(lane, lane.next)) ++lane.next;
    if (lane.next == slots.size()) return look_around(which, number, size, Reason::longer);
    const Slot& slot = slots[lane.next];
    if (slot.size != size && slot.size != kAnySize) return look_around(which, number, size, Reason::size);
    use(lane, lane.next++);
    if (slot.offset == kOutside) return left_outside();
    if (!fits(slot, size)) return missed(Reason::occupied, which, number, slot.size, size);
    return serve(slot.offset, size);
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

  std::size_t live() const { return live_.count(); }
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

  void check_bounds(Bytes alignment) const {
    if (base_ % static_cast<Address>(alignment) != 0) throw std::invalid_argument("the arena is not aligned");
    for (const Track& track : tracks_)
      for (const auto& slots : track)
        for (const Slot& slot : slots) check_bounds(slot, alignment);
  }

  void check_bounds(const Slot& slot, Bytes alignment) const {
    if (slot.offset == kOutside) return;
    const bool inside = slot.size >= 0 && slot.offset >= 0 && slot.size <= bytes_ && slot.offset <= bytes_ - slot.size;
    if (!inside || slot.offset % alignment != 0) {
      throw std::invalid_argument("a slot must lie in the arena of " + std::to_string(bytes_) + " bytes, aligned to " +
                                  std::to_string(alignment) + ", got offset " + std::to_string(slot.offset) +
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
    const auto& slots = tracks_[track_][which];
    const std::size_t at = lane.next;
    const Bytes expected = at < slots.size() ? slots[at].size : kAnySize;
    note(reason, which, number, expected, size);
    for (std::size_t distance = 1; distance <= kWindow; ++distance) {
      if (at + distance < slots.size() && is_match(which, at + distance, size))
        return follow(which, at + distance, size);
      if (distance <= at && is_match(which, at - distance, size)) return follow(which, at - distance, size);
    }
    if (at < slots.size()) {
      const Slot& slot = slots[at];
      ++lane.next;  // not used: what belongs there may still come
      if (slot.offset != kOutside && size <= slot.size && fits(slot, size)) return serve(slot.offset, size);
    }
    ++counts_.missed;
    return 0;
  }

  bool is_match(std::size_t which, std::size_t at, Bytes size) const {
    const Slot& slot = tracks_[track_][which][at];
    return slot.size == size && !is_used(progress_[track_][which], at) && (slot.offset == kOutside || fits(slot, size));
  }

  Address follow(std::size_t which, std::size_t at, Bytes size) {
    Lane& lane = progress_[track_][which];
    use(lane, at);
    lane.next = at + 1;
    const Bytes offset = tracks_[track_][which][at].offset;
    return offset == kOutside ? left_outside() : serve(offset, size);
  }

  Address serve(Bytes offset, Bytes size) {
    live_.add(offset, offset + size);
    ++counts_.served;
    counts_.used += size;
    if (counts_.used > counts_.peak) counts_.peak = counts_.used;
    return base_ + static_cast<Address>(offset);
  }

  Address left_outside() {
    ++counts_.outside;
    return 0;
  }

  Address missed(Reason reason, std::size_t which, std::size_t number, Bytes expected, Bytes got) {
    note(reason, which, number, expected, got);
    ++counts_.missed;
    return 0;
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
    const auto& slots = tracks_[track].front();
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
  Bytes bytes_;
  std::vector<Track> tracks_;
  std::vector<std::vector<Lane>> progress_;  // by track and thread
  std::vector<Thread> threads_;              // of the step, in order of their first allocations
  std::vector<Bytes> first_sizes_;           // of the step, while the track is not certain
  std::size_t track_ = 0;
  std::uint32_t step_ = 0;
  bool choosing_ = false;
  bool began_ = true;
  LiveRanges live_;
  Counts counts_;
  Divergence divergence_;
};

}  // namespace memplan::run
