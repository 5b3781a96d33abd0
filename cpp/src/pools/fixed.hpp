// Fixed: pins and reserved bytes of pools, in their pool and in the arena of all pools.
//
// While memplan chooses which tensors share bytes, pools are spread out: far apart in one arena. So two tensors that are
// pinned in different pools have different offsets, and never share bytes. In a plan, pools are stacked: each begins
// where the one before ends.
//
//     spread   │ sram │      …      │ dram │     …        stacked   │ sram │ dram │
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/buffers.hpp"
#include "memplan/pools.hpp"

namespace memplan {

struct FixedInPools {
  std::vector<PinInPool> pins;
  std::vector<ReservedInPool> reserved;  // those that were asked for, then those of Pool::reserved

  bool empty() const { return pins.empty() && reserved.empty(); }
};

// A pin by name, and whether a pool accepts a name.
struct NamedPin {
  std::string name;
  std::size_t pool;
  Bytes offset;
};
using TakesName = std::function<bool(std::string_view name, std::size_t pool)>;

// The pins of a layout, and their pools. A pin without a pool goes to the only pool that takes the name. Throws
// ProblemError for an unknown pool, and if no pool or several take the name.
std::vector<NamedPin> pins_in(std::span<const Pool> pools, const Layout& layout, const TakesName& takes);

// The reserved bytes of each pool. Throws ProblemError for an unknown pool, and for a range without a pool if there are
// several pools.
std::vector<ReservedInPool> reserved_in(std::span<const Pool> pools, const Layout& layout);

// The problem with these pins and reserved bytes, at their offsets in the stacked arena.
Problem stacked(const Problem& problem, const FixedInPools& fixed, std::span<const UsedPool> pools);

// A graph whose pools are spread out.
class SpreadOut {
 public:
  // Throws ProblemError as pins_in(), and for pins too far up. Pools outlive it.
  SpreadOut(std::span<const Pool> pools, std::shared_ptr<const Graph> graph, const TakesName& takes, Bytes alignment);

  const std::shared_ptr<const Graph>& graph() const { return graph_; }

  struct Made {
    Buffers buffers;  // with offsets in the spread-out arena
    Problem problem;  // without pins and reserved bytes
    FixedInPools fixed;
  };
  // The buffers of the graph, its ops in any order. An error about pins or reserved bytes names the pool, and has
  // offsets in that pool.
  Made buffers(const Graph& graph, const StorageOptions& storage) const;

  // The graph with its pins and reserved bytes at their offsets in the stacked arena; the same graph if nothing is
  // fixed.
  std::shared_ptr<const Graph> stacked(const std::shared_ptr<const Graph>& graph,
                                       std::span<const UsedPool> pools) const;

 private:
  void check_each(const Graph& graph, const StorageOptions& storage) const;

  std::span<const Pool> pools_;
  std::vector<ReservedInPool> reserved_;
  Bytes span_;  // from the beginning of a pool to that of the next
  bool is_fixed_ = false;
  std::shared_ptr<const Graph> graph_;
};

}  // namespace memplan
