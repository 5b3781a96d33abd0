// The slots of an arena, as a plan of a tape has them, and the bytes of the arena that are in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "follower.hpp"

namespace memplan::run {

using Address = std::uintptr_t;
using Thread = std::uint64_t;  // any number that is the thread's own while it runs

constexpr Bytes kOutside = -1;  // the offset of what outlives its step: it is no part of the plan

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

}  // namespace memplan::run
