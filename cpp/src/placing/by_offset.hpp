// ByOffset: the buffers placed so far, by offset, for searches that ask often and take buffers away again.
//
//     level 0  │          all sections            │     a list per part of time, of the buffers alive in it, by
//     level 1  │       half     │       half      │     offset; a span is looked up in the shortest part that
//     level 2  │ quarter│quarter│quarter │ quarter│     contains it
//
// The number of levels is such that each level has a few entries per buffer. To look up a span, it reads one list. To
// add or remove a buffer, it moves the entries behind it in a block of each list that the buffer is in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/section_lives.hpp"

namespace memplan {

class ByOffset {
 public:
  // Nothing is placed at first. `lives` outlives it.
  ByOffset(const SectionLives& lives, const Deadline& deadline);

  // Places these buffers, and no others: an offset per buffer, or kNowhere. O(entries + n log n).
  void assign(std::span<const Bytes> offsets, const Deadline& deadline);

  // Buffer i, which has bytes, is not placed; or is placed.
  void add(Index i, Bytes offset);
  void remove(Index i);

  Bytes offset(Index i) const { return offset_[at(i)]; }
  std::span<const Bytes> offsets() const { return offset_; }

  // Calls f(buffer) for each placed buffer that shares a section with buffer i, by offset, then index, until f says
  // false. Buffer i may be among these. Returns how many buffers were looked at.
  template <class F>
  std::size_t visit(Index i, F&& f) const {
    const Index begin = lives_.begin[at(i)];
    const Index end = lives_.end[at(i)];
    std::size_t looked = 0;
    for (const Block& block : shortest_list(begin, end)) {
      for (const Entry& entry : block)
        if (entry.begin < end && entry.end > begin && !f(entry.buffer)) return looked + block.size();
      looked += block.size();
    }
    return looked;
  }

 private:
  struct Entry {
    Index begin;
    Index end;
    Index buffer;
  };
  using Block = std::vector<Entry>;  // never empty, never more than kMostPerBlock
  using List = std::vector<Block>;
  struct Level {
    int shift;  // section s is in part s >> shift
    std::vector<List> parts;
  };

  const List& shortest_list(Index begin, Index end) const;
  std::size_t entries_at(int shift) const;
  bool stands_before(const Entry& entry, Index i) const;
  List::iterator block_of(List& list, Index i) const;
  void insert(List& list, Index i);
  void erase(List& list, Index i);
  template <class F>
  void for_each_list_of(Index i, F&& f);

  const SectionLives& lives_;
  std::vector<Bytes> offset_;
  std::vector<Level> levels_;  // the coarsest first
};

}  // namespace memplan
