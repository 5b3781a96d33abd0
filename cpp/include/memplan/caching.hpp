// Caching: the bytes that torch's caching allocator for CUDA reserves, without a GPU.
//
//   requests ──▶ [ free block that fits? ] ── yes ──▶ split what is left, if it is worth it
//                     │ no
//                     ▼
//               new segment of the device ── none left? cached segments go back, once more ── none: memory ran out
//
// The allocator is deterministic. So a trace of its requests can be replayed to the address (`replay`), and run again
// with other settings (`reserve`).
//
//   - Sizes are rounded up to 512 bytes, or to a part of a power of two.
//   - Blocks of up to 1 MiB come from small segments, of 2 MiB. Larger blocks come from segments of 20 MiB or, from 10
//     MiB on, of their own size rounded up to 2 MiB. Expandable segments grow by pages instead, of 2 and 20 MiB.
//   - The smallest free block that fits is taken, and split if the rest is worth it.
//   - Free neighbours in a segment become one. Segments are kept until memory runs out.
//
// O(n log n) for n requests. Source: c10/cuda/CUDACachingAllocator.cpp; compared with the allocators of torch 2.9.1 to
// 2.14.1.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memplan/problem.hpp"
#include "memplan/units.hpp"

namespace memplan {

using Address = std::uint64_t;

// Which of free blocks of equal size is taken.
enum class CachingTies : std::int8_t {
  segment,  // of the segment that came from the device first, the lowest: torch 2.14
  block,    // that was made first, by a split too: torch 2.12
  address,  // the lowest: torch before
};

// The settings of PYTORCH_ALLOC_CONF, in bytes.
struct CachingSettings {
  Bytes max_split_size = kMaxBytes;           // blocks of so many bytes are never split
  Bytes max_non_split_rounding = 20 << 20;    // such a block exceeds its request by less; in torch, large_segment
  Bytes large_segment = 20 << 20;             // segments for requests of 1 to 10 MiB, and pages of large blocks
  std::array<Bytes, 16> roundup_divisions{};  // [k]: parts per power of two, from 1 MiB << k on; 0: none
  double garbage_collection_threshold = 0;    // part of `limit`: above it, old cached segments go; 0: never
  bool expandable_segments = false;
  Bytes limit = kMaxBytes;     // that the allocator may reserve: per_process_memory_fraction of the device
  Bytes capacity = kMaxBytes;  // that the device has
  Bytes preallocated = 0;      // a block of so many bytes that the program allocates and frees before all else
  CachingTies ties = CachingTies::segment;

  Bytes rounded(Bytes size) const;
};

// Blocks of one stream and group share segments. Group 0 is the usual one; others are private pools.
struct CachingPool {
  std::int64_t stream = 0;
  Index group = 0;
};

enum class CachingAction : std::int8_t {
  allocate,
  request_free,   // another stream may still use the block
  complete_free,  // the block is free
  add_segment,
  drop_segment,
  map_pages,
  unmap_pages,
  run_out,  // `address` has the bytes that the device had left
};

struct CachingEvent {
  CachingAction action = CachingAction::allocate;
  Address address = 0;
  Bytes size = 0;  // as asked for
  Index pool = 0;
};

// A segment that the allocator held when the snapshot was taken.
struct CachingSegment {
  Address address = 0;
  Bytes size = 0;
  Index pool = 0;
  bool small = false;
  bool expandable = false;
};

struct CachingBlock {  // one in use
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  Index pool = 0;
};

// torch's record of one device: its latest events, and the segments and blocks after them.
struct CachingRecord {
  std::vector<CachingPool> pools;
  std::vector<CachingEvent> events;
  std::vector<CachingSegment> segments;
  std::vector<CachingBlock> blocks;
};

// A replay with the settings of the record. The driver gives the recorded addresses.
struct CachingReplay {
  std::int64_t allocations = 0, equal_addresses = 0;
  std::int64_t segments = 0, equal_segments = 0;  // added, dropped, mapped and unmapped; as in the record
  Bytes reserved = 0, recorded_reserved = 0;      // the most
  Bytes allocated = 0;                            // the most, in blocks as rounded and split
  std::int64_t parts_at = -1;                     // the first event that differs; -1: none
  std::string parts_because;
  std::int64_t before = 0;                                             // blocks that lived before the trace
  std::int64_t contradictions = 0;                                     // events and blocks that cannot be
  std::string contradiction;                                           // the first
  std::vector<Bytes> reserved_after, recorded_after, allocated_after;  // each event
};

// A run of the same requests with other settings. It begins with the blocks that lived before the trace, in the order
// of their addresses, and without cached segments. It gives back cached segments where the program did.
struct CachingRun {
  Bytes reserved = 0, allocated = 0;                   // the most
  std::int64_t peak_at = -1;                           // the event after which most was reserved; -1: before the first
  std::int64_t ran_out_at = -1;                        // the first event for which memory did not suffice; -1: none
  std::int64_t retries = 0;                            // how often cached segments had to go back to the device
  std::vector<Bytes> reserved_after, allocated_after;  // each event
};

// Requests of a program, without addresses: a value >= 0 allocates a block of its `size`; a value of -k - 1 frees the
// block of row k.
CachingRun reserve(std::span<const std::int64_t> rows, std::span<const Bytes> size, const CachingSettings& settings);

// All segments and blocks at one moment of a run or replay.
struct CachingState {
  std::vector<CachingSegment> segments;
  // One row per block, by segment and address. `event` allocated it; -1 - k: block k from before the trace, or free.
  std::vector<Index> segment;
  std::vector<Address> address;
  std::vector<Bytes> size;
  std::vector<std::int64_t> event;
  std::vector<bool> used;
};

struct UndoneRecord;

// A record that can be replayed and run many times. Its state before the first event is found once.
class CachingTrace {
 public:
  // `large_segment`: as it was set when the trace was recorded. Throws ProblemError for columns that are no record.
  explicit CachingTrace(CachingRecord record, Bytes large_segment = CachingSettings{}.large_segment);

  // Each O(n log n) for n events.
  CachingReplay replay(const CachingSettings& settings) const;
  CachingRun reserve(const CachingSettings& settings) const;
  // After this event of a run with `settings`; of the replay, if `as_recorded`.
  CachingState state_after(const CachingSettings& settings, std::int64_t event, bool as_recorded) const;

 private:
  std::shared_ptr<const UndoneRecord> undone_;
};

// Bytes of all segments at the end, when the buffers of a problem are born and die in their order; the largest int64 if
// they are more. At one step deaths come before births.
Bytes reserved_by_caching(const Problem& problem);

}  // namespace memplan
