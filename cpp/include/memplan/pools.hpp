// Pools: several memories, such as SRAM and DRAM, and which buffer lies in which.
//
//     Problem ─▶ which pool ─▶ a plan per pool ─▶ pools one behind the other, as one arena ─▶ verify, replay
//
// A buffer lies in one of the pools that accept it. Each pool has a cost for each byte that is accessed. memplan looks
// for the plan of the least cost; among plans of equal cost, for the one whose pools without a capacity peak lowest.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "memplan/buffers.hpp"
#include "memplan/graph.hpp"
#include "memplan/order_info.hpp"
#include "memplan/order_registry.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"
#include "memplan/verify_pools.hpp"

namespace memplan {

struct Pool {
  std::string name;
  std::optional<Bytes> capacity = {};
  Bytes alignment = 1;    // of all that lies in it, besides the buffers' own
  Bytes base = 0;         // the address at which it begins: a multiple of all alignments in it
  std::int64_t cost = 0;  // of a byte that is written to it or read from it, in any unit
  // What may lie in it; without a value, everything. For a problem: names of buffers. For a graph: kinds, names of
  // tensors, and types of ops, whose outputs and workspaces may lie here. A pool takes a buffer if it takes all tensors
  // in it.
  std::optional<std::vector<std::string>> accepts = {};
  std::vector<Reserved> reserved = {};  // bytes of it that no buffer uses
};

// By position: a buffer that lies in this pool, at this offset there.
struct PinInPool {
  Index buffer = kNone;
  std::size_t pool = 0;
  Bytes offset = 0;
};

// By position: bytes of this pool that no buffer uses.
struct ReservedInPool {
  std::size_t pool = 0;
  Reserved range;
};

// A pool with what lies in it.
struct UsedPool : PoolRange {
  Bytes lower_bound = 0;      // no plan of the same buffers needs less of it
  Index buffers = 0;          // how many lie in it
  std::int64_t accessed = 0;  // bytes that are written to it and read from it
};

struct PlanInPools {
  Problem problem;                            // with pins and reserved bytes as they are in the arena of all pools
  Plan plan;                                  // of that arena
  std::vector<Index> pool;                    // per buffer
  std::vector<UsedPool> pools;                // in their order
  std::vector<char> takes;                    // per buffer and pool, the pools of a buffer in a row
  std::vector<std::int64_t> accessed;         // per buffer: bytes that are written and read
  std::int64_t cost = 0;                      // of all accesses
  std::int64_t cost_bound = 0;                // no plan of the problem in these pools costs less
  std::vector<PinInPool> pins = {};           // what was asked for
  std::vector<ReservedInPool> reserved = {};  // the same, then what pools say themselves
};

// The plan of a problem without pins and reserved bytes. `fixed` says by name what is pinned and reserved, and in which
// pool. A pin without a pool goes to the only pool that takes the name. `accesses` says how often each buffer is
// accessed; empty: once. The same for any number of threads, unless a time limit or `stop` cuts it short.
//
// Throws ProblemError for a request that cannot be, InfeasibleError if no plan fits or none was found, and what solve()
// throws.
PlanInPools solve_in_pools(const Problem& problem, std::span<const Pool> pools,
                           const ChosenPlanner& planner = choose_planner("auto"), const PlanOptions& options = {},
                           const Layout& fixed = {}, std::span<const std::int64_t> accesses = {});

using Accesses = std::unordered_map<std::string, std::int64_t>;  // how often tensors are accessed, by name

struct GraphInPools {
  std::shared_ptr<const Graph> graph;  // in the order of the plan; pins and reserved bytes as in the arena of all pools
  Buffers buffers;
  PlanInPools found;      // its lower bound holds for the graph in its order, whatever tensors share bytes
  Bytes order_bound = 0;  // no order and no sharing needs less; 0: unknown
};

// The plan of a graph, whose layout says what is pinned and reserved: with tensors that share bytes by choice or
// without, whichever costs less; if both cost the same, whichever peaks lower. "best" never costs more than "given". A
// time limit is shared out among the search for an order and the plans. `accesses` names tensors that are accessed more
// or less often than ops do. Throws as above, and GraphError.
GraphInPools solve_in_pools(std::shared_ptr<const Graph> graph, std::span<const Pool> pools,
                            const ChosenPlanner& planner = choose_planner("auto"), const PlanOptions& options = {},
                            const StorageOptions& storage = {}, const ChosenOrder& order = choose_order("given"),
                            const Accesses& accesses = {}, const OnOrder& on_order = {});

}  // namespace memplan
