// Repair: buffers that found no place below a target get one at the cost of others, by rank.
//
//     target ▲╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌          4 found no place. It is promoted to a rank before 3: it may push out 3, which
//            │┌───────┐ ┌───┐          comes later now. Then 3 looks for a place, and may push out buffers that come
//            ││ 1     │ │ 3 │          later still.
//            │├──────┬┴─┴───┤          Each buffer is pushed out at most once, so a turn ends. A buffer that finds
//            ││ 0    │  2   │   + 4    no place stays out.
//            └┴──────┴──────┴─▶
//
// This is the squeaky wheel's reordering without placing all again: a buffer keeps its offset until a buffer that comes
// sooner needs it. A turn that leaves more buffers out than allowed is taken back.
//
// O(k + c log c) to find a place among k buffers alive in the same part of time, c of them in the way.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/chance.hpp"
#include "memplan/problem.hpp"
#include "placing/by_offset.hpp"
#include "placing/placed.hpp"

namespace memplan {

using Rank = std::int64_t;  // lower ranks are placed first

inline constexpr Rank kRankGap = Rank{1} << 24;                       // between two neighbours in a fresh order
inline constexpr Rank kFixedRank = std::numeric_limits<Rank>::min();  // nothing may push these out, or rank before

enum class Fit { kLowest, kTightest };

class Repair {
 public:
  // `problem` and `lives` outlive it. Each call below asks the deadline that it is given. If the deadline throws, do
  // not use this repair again.
  Repair(const Problem& problem, const SectionLives& lives, const Deadline& deadline);

  // Begins with these offsets and ranks, one per buffer. The buffers `out` are nowhere, and are to get a place. Other
  // buffers that are nowhere stay nowhere.
  void begin(std::span<const Bytes> offsets, std::vector<Index> out, std::span<const Rank> ranks, Bytes target, Fit fit,
             const Deadline& deadline);

  // Takes back all turns since begin(); `out` and `ranks` are as they were there.
  void begin_again(std::vector<Index> out, std::span<const Rank> ranks);

  // From now on turns are kept for good.
  void keep_turns() { may_begin_again_ = false; }

  // Promotes one of the buffers that are out, and repairs. False if that was taken back, because it left out more than
  // `more` buffers beyond those that were out before.
  bool turn(Chance& chance, const Deadline& deadline, std::size_t more = 0);

  bool done() const { return out_.empty(); }  // all have a place
  const std::vector<Index>& out() const { return out_; }
  std::span<const Bytes> offsets() const { return placed_.offsets(); }
  std::span<const Rank> ranks() const { return rank_; }

  // Offsets for all: buffers that are out go to the lowest place among all others, above the target.
  std::vector<Bytes> completed(const Deadline& deadline);

  std::int64_t work() const { return work_; }  // buffers looked at

 private:
  struct Blocked {  // the offsets between these two, both excluded
    Bytes after;
    Bytes before;
    Index buffer;
  };
  struct Moved {
    Index buffer;
    Bytes from;
  };

  bool ranks_before(Index a, Index b) const;
  void note_looks(std::size_t buffers);
  void find_blocked(Index i, Bytes below);
  void block(Index i, Index by);
  Bytes find_place(Index i);
  Bytes cheapest_place(Index i, Bytes top);
  void promote(Index i, Chance& chance);
  void spread_ranks();
  void move(Index i, Bytes offset);
  bool place_all(std::vector<Index> waiting, std::size_t allowed);
  void take_back(std::size_t moves);

  const Problem& problem_;
  const SectionLives& lives_;
  const Deadline* deadline_ = nullptr;  // of the call in progress
  const bool plain_;                    // neither shapes nor conflicts beyond lifetimes
  ByOffset placed_;
  std::vector<Rank> rank_;
  std::vector<std::int64_t> price_;  // of pushing a buffer out
  std::vector<Index> out_;
  Bytes target_ = 0;
  Fit fit_ = Fit::kLowest;
  std::int64_t work_ = 0;

  bool may_begin_again_ = true;
  std::vector<Moved> moved_;  // since the beginning, or in this turn
  std::vector<Blocked> blocked_;
  std::vector<OffsetRange> open_;  // free of buffers of higher rank
  std::vector<Blocked> movable_;   // blocked by buffers of lower rank, within open_
  std::vector<Index> neighbours_;
};

}  // namespace memplan
