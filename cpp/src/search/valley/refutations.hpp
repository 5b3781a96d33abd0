// Refutations: states of the search that have no plan, kept within a fixed memory.
//
// A state is the items without a place, each with its base. A refuted state is refuted for every lower capacity too,
// and it refutes all states with the same items and bases that are nowhere lower. For states of a few sections, the
// floors are kept and compared one by one. They determine the bases: the base of an item is the highest floor that it
// covers, rounded up.
//
// A state is known by a fingerprint of 128 bits: the sum of a random number for each item with its base. Two different
// states may have the same fingerprint by chance. About a million states are kept, so for a million million states met,
// the probability of that is about 2^-68.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

struct Fingerprint {
  std::uint64_t low = 0, high = 0;

  static Fingerprint of(Index twin, Bytes base) {
    const std::uint64_t seed = static_cast<std::uint64_t>(base) * 0x9e3779b97f4a7c15ull ^
                               mix(static_cast<std::uint64_t>(twin) + 0x632be59bd9b4e019ull);
    const std::uint64_t other = mix(static_cast<std::uint64_t>(base) + 0xd1342543de82ef95ull) +
                                static_cast<std::uint64_t>(twin) * 0x9e6c63d0876a9a47ull;
    return {mix(seed), mix(other)};
  }

  bool operator==(const Fingerprint&) const = default;
  Fingerprint& operator+=(const Fingerprint& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  Fingerprint& operator-=(const Fingerprint& other) {
    low -= other.low;
    high -= other.high;
    return *this;
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
};

// The fingerprints of a state: of its items with their bases, and of its items alone.
struct StatePrint {
  Fingerprint state, items;

  static StatePrint of(Index twin, Bytes base) { return {Fingerprint::of(twin, base), Fingerprint::of(twin, -1)}; }

  StatePrint& operator+=(const StatePrint& other) {
    state += other.state;
    items += other.items;
    return *this;
  }
  StatePrint& operator-=(const StatePrint& other) {
    state -= other.state;
    items -= other.items;
    return *this;
  }
};

// Refuted states, found by equality.
class Refutations {
 public:
  // Whether the state is known to have no plan at this capacity.
  bool contains(const Fingerprint& state, Bytes capacity) const {
    if (entries_.empty()) return false;
    const Entry* bucket = &entries_[place(state)];
    for (std::size_t k = 0; k < kWays; ++k)
      if (bucket[k].state == state && bucket[k].capacity >= capacity) return true;
    return false;
  }

  void add(const Fingerprint& state, Bytes capacity);

 private:
  struct Entry {
    Fingerprint state;
    Bytes capacity = -1;
  };
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kMost = std::size_t{1} << 20;

  std::size_t place(const Fingerprint& state) const { return state.low & (entries_.size() - kWays); }
  void grow();

  std::vector<Entry> entries_;  // buckets of kWays; the oldest of a full one goes
  std::size_t count_ = 0;
};

// Refuted states, found by the same items and by floors that are nowhere higher.
class RefutedFloors {
 public:
  static constexpr Index kMostSections = 32;
  static constexpr std::int64_t kLeastNodes = 16;  // that it took; a state refuted sooner need not be kept

  // For parts of at most so many sections.
  explicit RefutedFloors(Index sections) : stride_(static_cast<std::size_t>(std::min(sections, kMostSections))) {}

  // Whether the state is known to have no plan at this capacity: its items, and the floors of the sections from the
  // first to the last that they cover.
  bool contains(const Fingerprint& items, Bytes capacity, std::span<const Bytes> floors) const;

  void add(const Fingerprint& items, Bytes capacity, std::span<const Bytes> floors);

 private:
  struct Entry {
    Fingerprint items;
    Bytes capacity = -1;
    std::size_t row = 0;
  };
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kMost = std::size_t{1} << 17;

  std::size_t place(const Fingerprint& items) const { return items.low & (entries_.size() - kWays); }
  std::span<const Bytes> floors(const Entry& entry, std::size_t count) const {
    return std::span(rows_).subspan(entry.row * stride_, count);
  }
  void grow();

  std::size_t stride_;
  std::vector<Entry> entries_;  // buckets of kWays; the oldest of a full one goes
  std::vector<Bytes> rows_;     // floors, a row per entry that was ever full
  std::size_t count_ = 0;
};

}  // namespace memplan
