// Ground: pinned buffers and reserved bytes as one more buffer. Then the question whether a plan fits a capacity has no
// pins. The ground is as large as the capacity, so it can only lie at 0:
//
//     capacity ┌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┐        what is pinned and reserved are the ground's parts;
//              ╎  ┌────┐ ┌────┐        all else of it is free for others
//              ╎  │ #3 │ │####│ reserved
//              ┌──┴─┐  └─┴────┤
//            0 │ #1 │         ╎
//              └────┴╌╌╌╌╌╌╌╌╌┘▶ step
//
// If a pinned buffer conflicts with another that it is never alive with, both get one more step, after all others.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

class Ground {
 public:
  // `problem` outlives it.
  explicit Ground(const Problem& problem);

  // Free buffers first, then the ground, if anything is fixed where they live. No pin ends above the capacity.
  Problem at(Bytes capacity) const;

  // The buffers that are not pinned, and have bytes.
  const std::vector<Index>& free() const { return free_; }

  // The offsets of all buffers, from those of the free buffers.
  std::vector<Bytes> offsets(std::span<const Bytes> of_free) const;

 private:
  std::vector<Part> fixed_parts(Bytes capacity) const;
  bool meets_free(Step first, Step last) const;
  void append_parts(Index k, std::vector<Part>& parts) const;
  std::vector<std::pair<Index, Index>> apart() const;
  Conflicts conflicts_among(Index count) const;

  const Problem& problem_;
  std::vector<Index> free_;
  Step begin_, end_;          // of all lives
  std::vector<Step> births_;  // of free buffers
  std::vector<Step> deaths_;  // the last of those born no later
};

}  // namespace memplan
