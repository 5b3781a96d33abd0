// Allocator: torch's caching allocator for one device, with a device that only counts.
//
//   segment   [ used ][  free  ][ used ][   unmapped ...      blocks in a row; the last only if segments expand
//
// All functions follow those of the same purpose in c10/cuda/CUDACachingAllocator.cpp, so that ties end as there.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "memplan/caching.hpp"

namespace memplan {

inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kMostReserved = Bytes{1} << 50;  // no device has more
inline constexpr Bytes kPageSpace = Bytes{1} << 46;  // of an expandable segment, where the device's bytes are unknown
inline constexpr Bytes kSmallest = 512;
inline constexpr Bytes kSmall = kMiB, kSmallSegment = 2 * kMiB;

class CachingAllocator {
 public:
  // A run of addresses that the allocator changed, in order.
  struct Change {
    CachingAction action;
    Address address;
    Bytes size;
  };

  // A used block of a segment that is there from the beginning.
  struct Standing {
    Address address;
    Bytes size;
  };

  CachingAllocator(const CachingSettings& settings, std::span<const CachingPool> pools);

  // A segment that is there from the beginning, with its used blocks in order. The rest of it is free. The parts of an
  // expandable segment come in the order of their addresses. The first says where pages begin, and may have no bytes.
  std::vector<Index> adopt(const CachingSegment& segment, std::span<const Standing> used);

  // The block that serves a request; kNone if memory runs out. The next segment from the device begins at `offered`, if
  // given.
  Index allocate(Bytes requested, Index pool, std::optional<Address> offered = std::nullopt);
  void free(Index block);
  // The free of a block that other streams use: it is complete when memory runs out, or by complete().
  void request_free(Index block) { pending_.insert(block); }
  // Blocks whose free became complete because memory ran out. They no longer belong to the caller.
  std::vector<Index>& completed() { return completed_; }
  // Cached segments go back to the device, as torch.cuda.empty_cache() does.
  void empty_cache();
  // Gives this segment back, if it is all free. Returns whether it was.
  bool drop(Address segment);
  // Gives back the pages of the free block around this range. Returns the unmapped range, of size 0 if there is none.
  Change unmap(Address address, Bytes size);

  Address address(Index block) const { return blocks_[at(block)].address; }
  Bytes size(Index block) const { return blocks_[at(block)].size; }
  Bytes reserved() const { return reserved_; }
  Bytes allocated() const { return allocated_; }
  std::int64_t retries() const { return retries_; }
  std::vector<Change>& changes() { return changes_; }

  // All mapped blocks, in the order of their addresses, with runs that hang together.
  struct Run {
    CachingSegment segment;
    std::vector<Index> blocks;
  };
  std::vector<Run> runs() const;
  bool used(Index block) const { return blocks_[at(block)].used; }

 private:
  struct Block {
    Address address = 0;
    Bytes size = 0;
    Index pool = 0;
    bool small = false, used = false, mapped = true;
    std::uint64_t rank = 0;    // among free blocks of equal size
    Index expandable = kNone;  // its expandable segment
    Index prev = kNone, next = kNone;
    std::int64_t age_base = 0;
  };
  struct Key {
    std::uint64_t stream;
    Bytes size;
    std::uint64_t rank;
    Address address;
    Index block;
    auto operator<=>(const Key&) const = default;
  };
  using Blocks = std::set<Key>;
  struct Shelf {  // torch's BlockPool
    Blocks free;
    Blocks unmapped;  // with size 0: in the order of addresses
    std::int64_t searches = 0;
  };
  struct Expandable {
    Address begin;
    Bytes page, space;
    Index head, last;  // its first block; the unmapped one behind all adopted blocks
  };
  struct Head {
    Index block;
    Bytes size;
  };

  Block& block(Index b) { return blocks_[at(b)]; }
  std::uint64_t stream(Index pool) const { return static_cast<std::uint64_t>(pools_[at(pool)].stream); }
  Shelf& shelf(const Block& b) { return shelves_[at(2 * pools_[at(b.pool)].group + b.small)]; }
  Key key(Index b) const;
  Key unmapped_key(Index b) const;
  Index make(const Block& b);
  std::uint64_t next_rank(CachingTies ties) { return settings_.ties == ties ? ++ranks_ : 0; }
  void shelve(Index b);
  void splice(Index b, Index before, Index after);
  bool is_split(Index b) const { return blocks_[at(b)].prev != kNone || blocks_[at(b)].next != kNone; }
  bool should_split(const Block& b, Bytes size) const;
  Bytes segment_for(Bytes size) const;
  Index find(Shelf& shelf, Index pool, Bytes size);
  Index add_segment(Index pool, bool small, Bytes size);
  Index expand(Index pool, bool small, Bytes size);
  Index expandable_block(Index pool, bool small, Bytes size);
  bool map(Index b, Bytes size);
  bool merge(Index into, Index from);
  bool release_oversize(Shelf& shelf, Index pool, Bytes size);
  void release_cached();
  void release_all(Shelf& shelf);
  void release(Index b);
  Change unmap_pages(Index b);
  void collect_garbage();
  bool is_vacant(Address address, Bytes size) const;
  Address new_address(Bytes size);
  Index add_expandable(const Block& pattern, Address begin, Bytes space);
  void set_head(Index b);

  CachingSettings settings_;
  std::vector<CachingPool> pools_;
  std::vector<Block> blocks_;
  std::vector<Index> unused_;  // positions in blocks_
  std::vector<Shelf> shelves_;
  std::vector<Expandable> expandables_;
  std::map<Address, Head> heads_;  // the first block of each segment that does not expand, by its address
  std::set<Index> pending_;
  std::vector<Index> completed_;
  std::vector<Change> changes_;
  std::optional<Address> offered_;
  Bytes reserved_ = 0, allocated_ = 0;
  std::int64_t retries_ = 0;
  std::uint64_t ranks_ = 0;
};

}  // namespace memplan
