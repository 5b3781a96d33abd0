// OrderSearch: plans of general conflict graphs by orders. In the given order, each buffer gets the lowest offset at
// which it overlaps no conflicting buffer. The search changes the order at the buffers that make the peak.
//
//     offset ▲      ┌────────┐     3 makes the peak. It comes sooner, before something that it conflicts with; or
//            │      │   3    │     two of what it rests on change places (1 or 2 with 0, on which 1 rests). Then
//            │ ┌────┴──┐┌────┤     what comes after the change is placed again, until one ends above what is
//            │ │   1   ││    │     accepted
//            │ ├──┬────┘│ 2  │
//            │ │0 │     │    │
//            └─┴──┴─────┴────┴─▶
//
// A change is accepted if its peak is at most the present one, or at most that of some hundred changes ago. So the
// search walks on plateaus, and now and then uphill. If no better peak is found for long, it begins again, from another
// order or from the best.
//
// All conflicts are a matrix of bits, and placed buffers are sorted by offset. So placing a buffer takes one look at
// the buffers below its place. Shapes are ignored.
//
// Complexity: O(n) for each buffer that is placed again. Guarantee: none. Source: the moves of hill_climb (TVM, Vela)
// and of squeaky wheel (Joslin and Clements 1999); late acceptance: Burke and Bykov 2017.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/chance.hpp"
#include "memplan/problem.hpp"
#include "search/search.hpp"

namespace memplan {

class OrderSearch : public Search {
 public:
  static constexpr Index kMostBuffers = 1 << 13;  // of a matrix of bits: 8 MiB

  // `problem` outlives it.
  OrderSearch(const Problem& problem, std::uint64_t seed, const Deadline& deadline);

  bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override;

  std::vector<Bytes> offsets() const override { return best_; }
  std::int64_t work() const override { return work_; }

 private:
  struct Placed {
    Bytes begin, end;
    Index buffer;
  };
  using Order = std::vector<Index>;

  bool conflict(Index a, Index b) const { return (rows_[at(a) * words_ + at(b) / 64] >> (at(b) % 64)) & 1; }
  Order order_of(std::size_t start, std::span<const Bytes> best) const;
  void begin(Order order, const Deadline& deadline);
  bool place(std::size_t from, Bytes limit, const Deadline& deadline);
  void change(const Deadline& deadline);
  std::size_t propose();
  void keep();

  const Problem& problem_;
  std::size_t words_;
  std::vector<std::uint64_t> rows_;
  std::vector<std::int64_t> weight_;  // per buffer: its size plus those of all conflicting buffers
  Chance chance_;
  std::vector<Bytes> best_;
  Bytes best_peak_ = kMaxBytes;
  Order order_, trial_;
  std::vector<Placed> placed_, tried_;  // by begin
  std::vector<std::size_t> position_;   // per buffer, in the order
  Bytes peak_ = kMaxBytes, tried_peak_ = 0;
  static constexpr std::size_t kMemory = 200;
  std::array<Bytes, kMemory> before_{};  // peaks of so many changes ago
  std::int64_t changes_ = 0, quiet_ = 0;
  std::size_t starts_ = 0;
  bool active_ = false;
  std::int64_t work_ = 0;
  std::vector<std::size_t> found_;
};

}  // namespace memplan
