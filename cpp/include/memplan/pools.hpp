// Pools: several memories, such as SRAM and DRAM. A plan says in which pool each buffer lies, and where in the pool.
//
//     Problem ─▶ a pool for each buffer ─▶ a plan per pool ─▶ one arena: all pools in a row ─▶ verify, replay
//
// A buffer lies in one of the pools that accept it. Each pool has a cost of each byte that is read or written. memplan
// looks for the plan with the least cost. Among plans of equal cost, the better plan has the lower peak. Only the peaks
// of pools without a capacity count here.
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
  Bytes alignment = 1;    // of every buffer in it, besides the buffer's own alignment
  Bytes base = 0;         // the address at which it begins: a multiple of all alignments in it
  std::int64_t cost = 0;  // of reading or writing one byte, in any unit
  // The names of things that may lie in the pool. Without a value, everything may. For a problem, these are names of
  // buffers. For a graph, these are kinds of tensors, names of tensors, and types of ops. A type of op stands for the
  // outputs and workspaces of such ops. A pool accepts a buffer if it accepts all tensors in this buffer.
  std::optional<std::vector<std::string>> accepts = {};
  std::vector<Reserved> reserved = {};  // bytes that no buffer may use
};

// A buffer that must lie in a pool, at an offset in this pool. Buffer and pool are positions in their lists.
struct PinInPool {
  Index buffer = kNone;
  std::size_t pool = 0;
  Bytes offset = 0;
};

// Bytes of a pool that no buffer may use. `pool` is a position in the list of pools.
struct ReservedInPool {
  std::size_t pool = 0;
  Reserved range;
};

// A pool of a plan, with figures of the buffers in it.
struct UsedPool : PoolRange {
  Bytes lower_bound = 0;      // no plan of the same buffers has a lower peak in this pool
  Index buffers = 0;          // how many lie in it
  std::int64_t accessed = 0;  // bytes written and bytes read
};

struct PlanInPools {
  Problem problem;                            // pins and reserved bytes as offsets in the one arena
  Plan plan;                                  // offsets in the one arena
  std::vector<Index> pool;                    // per buffer
  std::vector<UsedPool> pools;                // as given
  std::vector<char> takes;                    // whether a pool accepts a buffer: takes[buffer * pools.size() + pool]
  std::vector<std::int64_t> accessed;         // per buffer: bytes written and bytes read
  std::int64_t cost = 0;                      // the sum over all reads and writes
  std::int64_t cost_bound = 0;                // proven: no plan of the problem in these pools costs less
  std::vector<PinInPool> pins = {};           // all pins that were asked for
  std::vector<ReservedInPool> reserved = {};  // all reserved bytes that were asked for, then those of Pool::reserved
};

// Makes the plan of a problem, which itself must have no pins and no reserved bytes. Instead, `fixed` has pins and
// reserved bytes, by the names of buffers and pools. A pin without a pool needs a name that exactly one pool accepts.
// `accesses` says how often each buffer is accessed. If `accesses` is empty, each buffer is accessed once. The plan is
// the same for any number of threads, unless a time limit or `stop` ends the search.
//
// Throws ProblemError for a request that contradicts itself, InfeasibleError if no plan fits or none was found, and the
// errors of solve().
PlanInPools solve_in_pools(const Problem& problem, std::span<const Pool> pools,
                           const ChosenPlanner& planner = choose_planner("auto"), const PlanOptions& options = {},
                           const Layout& fixed = {}, std::span<const std::int64_t> accesses = {});

using Accesses = std::unordered_map<std::string, std::int64_t>;  // by name of a tensor: how often it is accessed

struct GraphInPools {
  // Its ops are in the order of the plan. Its pins and reserved bytes are offsets in the one arena.
  std::shared_ptr<const Graph> graph;
  Buffers buffers;
  PlanInPools found;      // plan.lower_bound is for this order of ops, whichever tensors share bytes
  Bytes order_bound = 0;  // no order of ops and no sharing needs fewer bytes; 0: unknown
};

// Makes the plan of a graph. The graph's layout has the pins and reserved bytes. There are two candidates: tensors
// share bytes by choice, or none do. The candidate with the lower cost wins, and at equal cost the one with the lower
// peak. With the order "best", the given order is a candidate too, so the plan costs no more than with "given". A time
// limit may break this promise: it is shared between the search for an order and all candidates. `accesses` overrides
// how often ops access a tensor. Throws as above, and GraphError.
GraphInPools solve_in_pools(std::shared_ptr<const Graph> graph, std::span<const Pool> pools,
                            const ChosenPlanner& planner = choose_planner("auto"), const PlanOptions& options = {},
                            const StorageOptions& storage = {}, const ChosenOrder& order = choose_order("given"),
                            const Accesses& accesses = {}, const OnOrder& on_order = {});

}  // namespace memplan
