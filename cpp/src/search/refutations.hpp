// Refutations: states of the search that no plan follows from, kept within a fixed memory. A state is the multiset of
// items still to come, each with its base; a refuted one is refuted for every lower capacity too.
//
// A state is known by a fingerprint of 128 bits, the sum of one for each item: that two of the states ever met share
// theirs by chance has a probability of about 2^-68 for a million million of them, since about a million are kept.
#pragma once

#include <cstdint>
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

}  // namespace memplan
