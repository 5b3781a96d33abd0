// Layout: a caller's demands on the places of tensors or buffers.
//
//     pin        x at offset 4096                 reserved   bytes [0, 64) are for others
//     together   b begins 64 bytes after a        apart      a and b never share bytes, even one after the other
//     exclude    x has no place in the arena
//
// In a plan in several pools, each pin and each reserved range names its pool.
//
// A graph has one Layout, with names of tensors and workspaces ("conv.workspace"). A Problem has the same demands by
// index: pins, reserved bytes and groups have their own columns, and `apart` becomes conflicts.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// Bytes [begin, end) of the arena that no buffer may use in the steps [first, last).
struct Reserved {
  Bytes begin = 0;
  Bytes end = 0;
  Step first = std::numeric_limits<Step>::min();
  Step last = std::numeric_limits<Step>::max();

  bool operator==(const Reserved&) const = default;
};

// b begins `distance` bytes after a, or before a if `distance` is negative.
template <class Ref>
struct BasicTogether {
  Ref a;
  Ref b;
  Bytes distance = 0;

  bool operator==(const BasicTogether&) const = default;
};

using Together = BasicTogether<Index>;

// In a plan in several pools: the pool in which a tensor or buffer must lie, and the offset in this pool.
struct PoolPin {
  std::string name;
  std::string pool;
  Bytes offset = 0;

  bool operator==(const PoolPin&) const = default;
};

struct PoolReserved {
  std::string pool;
  Reserved range;

  bool operator==(const PoolReserved&) const = default;
};

struct Layout {
  std::vector<std::pair<std::string, Bytes>> pins = {};
  std::vector<Reserved> reserved = {};
  std::vector<BasicTogether<std::string>> together = {};
  std::vector<std::pair<std::string, std::string>> apart = {};
  std::vector<std::string> exclude = {};
  std::vector<PoolPin> pool_pins = {};
  std::vector<PoolReserved> pool_reserved = {};

  bool has_pools() const { return !pool_pins.empty() || !pool_reserved.empty(); }
  bool empty() const {
    return pins.empty() && reserved.empty() && together.empty() && apart.empty() && exclude.empty() && !has_pools();
  }
  bool operator==(const Layout&) const = default;
};

}  // namespace memplan
