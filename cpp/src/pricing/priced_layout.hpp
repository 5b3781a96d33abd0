// PricedLayout: buffers at their offsets, some of them not placed, and the cost of each offset for one of these.
//
//     offset ▲   free, costs 3 ├──────┤          Only offsets matter at which a range ends that is forbidden or has a
//            │  forbidden ├────┤      │          price, and the two ends of the room: between two such offsets the
//            │            │  ├─┤ free, costs 0   cost is the same, and at them it is no more.
//            └────────────┴────▶ cost
//
// O(k log k) to ask, for k ranges of neighbours that are placed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "pricing/pair_ranges.hpp"

namespace memplan {

// A free offset, and its cost.
struct PricedOffset {
  Bytes offset;
  std::int64_t price;
};

class PricedLayout {
 public:
  // `problem` is that of the ranges; both outlive it. All buffers are placed at these offsets.
  PricedLayout(const Problem& problem, PairRanges& ranges, std::span<const Bytes> offsets);

  void put(Index i, Bytes offset) {
    offsets_[at(i)] = offset;
    placed_[at(i)] = true;
  }
  void take(Index i) { placed_[at(i)] = false; }
  bool placed(Index i) const { return placed_[at(i)]; }
  Bytes offset(Index i) const { return offsets_[at(i)]; }
  // One offset per buffer; for a buffer that is not placed, its last one.
  std::span<const Bytes> offsets() const { return std::span(offsets_).first(offsets_.size() - 1); }

  // The sum of prices between a placed buffer and other placed buffers.
  std::int64_t paid_by(Index i) const;
  // Free offsets for a buffer that is not placed, ending at the capacity or below, ascending: of equal cost, at least
  // the lowest and the highest of each run. Valid until the next call.
  std::span<const PricedOffset> free(Index i, Bytes capacity);

  // Ranges that were looked at so far.
  std::int64_t work() const { return work_; }

 private:
  struct End {  // of a range
    Bytes offset;
    bool begins;
    bool forbidden;
    std::int64_t price;
  };

  void look_at(Index i, std::span<const PairRange> ranges, bool forbidden, Bytes highest);

  const Problem& problem_;
  PairRanges& ranges_;
  std::vector<Bytes> offsets_;  // and that of the ground
  std::vector<char> placed_;
  std::vector<End> ends_;
  std::vector<PricedOffset> free_;
  std::int64_t price_ = 0;  // at 0, of the look in progress
  int forbidden_ = 0;
  mutable std::int64_t work_ = 0;
};

}  // namespace memplan
