// Marks: a set of small numbers, which finds the last one up to a given number in O(log64 n).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

class Marks {
 public:
  // At first, none of [0, count) is marked. Every level has a bit beyond the last, so that a question about all finds
  // its word.
  void reset(Index count) {
    levels_.clear();
    std::size_t size = static_cast<std::size_t>(count);
    do {
      size = size / kBits + 1;
      levels_.emplace_back(size, 0);
    } while (size > 1);
  }

  void set(Index i) {
    std::size_t place = at(i);
    for (std::vector<Word>& level : levels_) {
      level[place / kBits] |= Word{1} << place % kBits;
      place /= kBits;
    }
  }

  void clear(Index i) {
    std::size_t place = at(i);
    for (std::vector<Word>& level : levels_) {
      level[place / kBits] &= ~(Word{1} << place % kBits);
      if (level[place / kBits] != 0) return;
      place /= kBits;
    }
  }

  // The last mark that is at most i, or kNone.
  Index last_up_to(Index i) const {
    std::size_t place = at(i) + 1;  // below there
    for (std::size_t k = 0; k < levels_.size(); ++k, place /= kBits) {
      if (place % kBits == 0) continue;  // nothing of this word is below
      const Word below = levels_[k][place / kBits] & ((Word{1} << place % kBits) - 1);
      if (below == 0) continue;
      place = place / kBits * kBits + at(std::bit_width(below)) - 1;
      for (; k > 0; --k) place = place * kBits + at(std::bit_width(levels_[k - 1][place])) - 1;
      return static_cast<Index>(place);
    }
    return kNone;
  }

 private:
  using Word = std::uint64_t;
  static constexpr std::size_t kBits = 64;

  std::vector<std::vector<Word>> levels_;  // bit i of a level: whether word i of the level before is not 0
};

}  // namespace memplan
