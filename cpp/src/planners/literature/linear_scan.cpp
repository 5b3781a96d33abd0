// linear_scan: the linear scan of register allocation, with regions of bytes for registers. It takes buffers by birth
// (ties: earlier death, index). Dead buffers give their bytes back, and free regions that touch become one. A new
// buffer takes the first of these that exists:
//
//   1. the tightest free region that holds it; the rest of the region stays free
//   2. the bytes of the buffer that dies last, if that dies later than this one and is at least as large. The other is
//      spilled: moved to the end of the arena, where it lies for the whole of its life
//   3. new bytes at the end of the arena
//
//     offset ▲     spilled ┌────────┐          1 is short-lived, and takes the place of 0. The rest of that place is
//            │             │   0    │          free for others, for as long as 0 lives at the end.
//            │ ┌────────┐  └────────┘
//            │ │   0    │ ─▶ ┌──┐
//            └─┴────────┴────┴1─┴──▶ step
//
// Register allocation spills like step 2 when no register is left. In an arena that may grow, it trades bytes at the
// end for smaller free regions below. Unlike best_fit, an arena that grows does not begin in the free region that
// touches its end. No spill may take an offset past int64.
//
// Complexity: O(n a) for a buffers alive at a time. Guarantee: none.
// Source: Poletto and Sarkar, Linear Scan Register Allocation, 1999; PyTorch JIT's static memory planner
// (torch/csrc/jit/passes/memory_planning/linear_scan.cpp, 2021). That planner rounds sizes up to 64 bytes. Here bytes
// that alignment skips become a free region.
#include <algorithm>
#include <iterator>
#include <set>

#include "placing/in_order.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

struct FreeRegion {
  Bytes begin = 0;
  Bytes end = 0;
};

bool tighter(const FreeRegion& a, const FreeRegion& b) {
  return a.end - a.begin != b.end - b.begin ? a.end - a.begin < b.end - b.begin : a.begin < b.begin;
}

bool holds(const FreeRegion& region, Bytes size, Bytes alignment) {
  return align_up(region.begin, alignment) - region.begin <= region.end - region.begin - size;
}

struct DiesBefore {
  const Problem& problem;

  bool operator()(Index a, Index b) const {
    if (problem.last(a) != problem.last(b)) return problem.last(a) < problem.last(b);
    return problem.first(a) != problem.first(b) ? problem.first(a) < problem.first(b) : a < b;
  }
};

class LinearScan {
 public:
  LinearScan(const Problem& problem, const Deadline& deadline)
      : problem_(problem), deadline_(deadline), active_(DiesBefore{problem}) {
    placement_.offsets.assign(problem.size().size(), 0);
    for (Index i = 0; i < problem.count(); ++i) unplaced_ += padded(i);
  }

  Placement run() {
    std::vector<Index> births = with_bytes(problem_);
    std::sort(births.begin(), births.end(), deadline_.ticking([&](Index a, Index b) {
      return problem_.first(a) != problem_.first(b) ? problem_.first(a) < problem_.first(b)
                                                    : DiesBefore{problem_}(a, b);
    }));
    for (Index born : births) {
      expire(problem_.first(born));
      unplaced_ -= padded(born);
      if (!take_free(born) && !take_from_active(born)) append(born);
      active_.insert(born);
    }
    return std::move(placement_);
  }

 private:
  Bytes& offset(Index i) { return placement_.offsets[at(i)]; }
  Bytes padded(Index i) const { return problem_.size(i) > 0 ? problem_.size(i) + (problem_.alignment(i) - 1) : 0; }

  // Puts the buffer at the low end of the region, of which it leaves the rest free.
  void put(Index i, const FreeRegion& region) {
    offset(i) = align_up(region.begin, problem_.alignment(i));
    release({region.begin, offset(i)});
    release({offset(i) + problem_.size(i), region.end});
  }

  void append(Index i) {
    put(i, {end_, align_up(end_, problem_.alignment(i)) + problem_.size(i)});
    end_ = offset(i) + problem_.size(i);
  }

  bool take_free(Index born) {
    deadline_.tick(kTicksPerBirth + free_.size() / 4);
    auto best = free_.end();
    for (auto region = free_.begin(); region != free_.end(); ++region)
      if (holds(*region, problem_.size(born), problem_.alignment(born)) &&
          (best == free_.end() || tighter(*region, *best)))
        best = region;
    if (best == free_.end()) return false;
    const FreeRegion region = *best;
    free_.erase(best);
    put(born, region);
    return true;
  }

  bool take_from_active(Index born) {
    for (auto it = active_.rbegin(); it != active_.rend() && problem_.last(*it) > problem_.last(born); ++it) {
      deadline_.tick();
      const Index spilled = *it;
      const FreeRegion region{offset(spilled), offset(spilled) + problem_.size(spilled)};
      if (!holds(region, problem_.size(born), problem_.alignment(born))) continue;
      if (padded(spilled) > kMaxBytes - unplaced_ - end_) return false;
      append(spilled);
      put(born, region);
      return true;
    }
    return false;
  }

  void expire(Step now) {
    while (!active_.empty() && problem_.last(*active_.begin()) <= now) {
      const Index dead = *active_.begin();
      active_.erase(active_.begin());
      release({offset(dead), offset(dead) + problem_.size(dead)});
    }
  }

  // Makes the region free, and one with those that touch it.
  void release(FreeRegion region) {
    if (region.begin == region.end) return;
    auto next = std::lower_bound(free_.begin(), free_.end(), region.begin,
                                 [](const FreeRegion& r, Bytes begin) { return r.begin < begin; });
    if (next != free_.end() && next->begin == region.end) {
      region.end = next->end;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->end == region.begin) {
      std::prev(next)->end = region.end;
    } else {
      free_.insert(next, region);
    }
  }

  static constexpr std::size_t kTicksPerBirth = 32;

  const Problem& problem_;
  const Deadline& deadline_;
  Placement placement_;
  std::vector<FreeRegion> free_;        // by address, no two touching
  std::set<Index, DiesBefore> active_;  // by death
  Bytes end_ = 0;
  Bytes unplaced_ = 0;  // bytes with padding of what is yet to be born
};

}  // namespace

Placement linear_scan(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  return LinearScan(problem, deadline).run();
}

}  // namespace memplan
