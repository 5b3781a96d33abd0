// Chance: numbers from a seed, the same on every platform: splitmix64 (Steele, Lea, Flood 2014).
#pragma once

#include <cstddef>
#include <cstdint>

namespace memplan {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ull;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }

  // In [0, bound); the bias of the remainder is below 2^-32 for the bounds used here.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

  // In [0, 1).
  double share() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace memplan
