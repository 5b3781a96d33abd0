// ByOffset: the buffers placed so far, by offset, where many are asked for one after another and any may be taken
// away again.
//
//     level 0  │          all sections            │     a list per part of time, of the buffers alive in it, by
//     level 1  │       half     │       half      │     offset; a span is looked up in the shortest part that
//     level 2  │ quarter│quarter│quarter │ quarter│     contains it
//
// There are as many levels as keep each of them to a few entries per buffer. To look up a span is to read one list; to
// add or to remove a buffer is to move what is behind it in each list that it is in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "section_lives.hpp"

namespace memplan {

inline constexpr Bytes kNowhere = -1;  // the offset of what is not placed

class ByOffset {
 public:
  // Nothing is placed at first. `lives` outlives it.
  explicit ByOffset(const SectionLives& lives);

  // Places these, and only these: an offset per buffer, or kNowhere. O(entries + n log n).
  void assign(std::span<const Bytes> offsets);

  // Buffer i, which has bytes, is not placed; or is placed.
  void add(Index i, Bytes offset);
  void remove(Index i);

  Bytes offset(Index i) const { return offset_[static_cast<std::size_t>(i)]; }
  std::span<const Bytes> offsets() const { return offset_; }

  // Calls f(buffer) for what is placed and shares a section with buffer i, by offset then index, until f says false;
  // i may be among them. Returns how many buffers were looked at.
  template <class F>
  std::size_t visit(Index i, F&& f) const {
    const Index begin = lives_.begin[static_cast<std::size_t>(i)];
    const Index end = lives_.end[static_cast<std::size_t>(i)];
    const List& list = shortest_list(begin, end);
    const Entry* const entries = list.data();
    const std::size_t size = list.size();
    for (std::size_t k = 0; k < size; ++k)
      if (entries[k].begin < end && entries[k].end > begin && !f(entries[k].buffer)) return k + 1;
    return size;
  }

 private:
  struct Entry {
    Index begin;
    Index end;
    Index buffer;
  };
  using List = std::vector<Entry>;
  struct Level {
    int shift;  // section s is in part s >> shift
    std::vector<List> parts;
  };

  const List& shortest_list(Index begin, Index end) const;
  std::size_t entries_at(int shift) const;
  List::iterator place_in(List& list, Index i) const;

  const SectionLives& lives_;
  std::vector<Bytes> offset_;
  std::vector<Level> levels_;  // the coarsest first
};

}  // namespace memplan
