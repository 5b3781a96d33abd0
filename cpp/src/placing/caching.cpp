#include "memplan/caching.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr Bytes kMiB = Bytes{1} << 20, kUnit = 512;

// The least multiple >= bytes; the largest that int64 holds where that is more.
Bytes rounded(Bytes bytes, Bytes unit) { return align_down(saturated_add(bytes, unit - 1), unit); }

// Segments of one kind, and what is free in them.
class Segments {
 public:
  using Place = std::pair<Index, Bytes>;  // a segment, and where a block begins in it
  using Block = std::pair<Place, Bytes>;  // and its size

  explicit Segments(bool small) : small_(small) {}

  Bytes reserved() const { return reserved_; }

  Block take(Bytes size) {
    auto fits = by_size_.lower_bound({size, {}});
    if (fits == by_size_.end()) {
      const Bytes whole = small_ ? 2 * kMiB : size < 10 * kMiB ? 20 * kMiB : rounded(size, 2 * kMiB);
      reserved_ = saturated_add(reserved_, whole);
      put({{count_++, 0}, std::max(whole, size)});
      fits = by_size_.lower_bound({size, {}});
    }
    const auto [found, place] = *fits;
    drop(free_.find(place));
    const Bytes rest = found - size;
    if (small_ ? rest < kUnit : rest <= kMiB) return {place, found};
    put({{place.first, place.second + size}, rest});
    return {place, size};
  }

  // Back, joined with its free neighbours.
  void give(Block block) {
    auto& [place, size] = block;
    const auto after = free_.lower_bound(place);
    const auto before = after == free_.begin() ? free_.end() : std::prev(after);
    if (after != free_.end() && after->first == Place(place.first, place.second + size)) {
      size += after->second;
      drop(after);
    }
    if (before != free_.end() && Place(before->first.first, before->first.second + before->second) == place) {
      place = before->first;
      size += before->second;
      drop(before);
    }
    put(block);
  }

 private:
  void put(const Block& block) {
    free_.insert(block);
    by_size_.emplace(block.second, block.first);
  }

  void drop(std::map<Place, Bytes>::iterator block) {
    by_size_.erase({block->second, block->first});
    free_.erase(block);
  }

  bool small_;
  Index count_ = 0;
  Bytes reserved_ = 0;
  std::map<Place, Bytes> free_;
  std::set<std::pair<Bytes, Place>> by_size_;
};

}  // namespace

Bytes reserved_by_caching(const Problem& problem) {
  Segments small(true), large(false);
  const std::vector<Index> deaths = by_death(problem);
  std::vector<Segments::Block> held(at(problem.count()));
  std::size_t dead = 0;
  for (const Index i : by_birth(problem)) {
    for (; problem.last(deaths[dead]) <= problem.first(i); ++dead) {
      const Index gone = deaths[dead];
      (rounded(problem.size(gone), kUnit) <= kMiB ? small : large).give(held[at(gone)]);
    }
    const Bytes size = rounded(problem.size(i), kUnit);
    held[at(i)] = (size <= kMiB ? small : large).take(size);
  }
  return saturated_add(small.reserved(), large.reserved());
}

}  // namespace memplan
