// Record: the segments and blocks before a trace began, found by undoing the trace from its end.
//
//   before ?  ◀── undo ── [ events ] ◀── segments and blocks in the end
//
// The size of a block is known if the block exists at the end. A block that dies in the trace has at least the
// requested bytes, and up to 1 MiB more, if the rest was not worth a split. If the trace puts another block behind it,
// the first block ends there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "caching/allocator.hpp"
#include "memplan/caching.hpp"

namespace memplan {

struct UndoneRecord {
  CachingRecord record;
  struct Block {
    Address address = 0;
    Bytes requested = 0, size = 0;  // size 0: not known
    Index pool = 0;
  };
  std::vector<Block> blocks;             // those from before the trace, in the order of their addresses; then by event
  std::size_t before = 0;                // how many of them are from before
  std::vector<Index> block_of;           // each event, kNone for those that have none
  std::vector<CachingSegment> segments;  // before the trace, by address; none shares bytes with another
  std::vector<CachingSegment> pages;     // by pool and size: where the pages of expandable segments begin, with size 0
  std::int64_t contradictions = 0;
  std::string contradiction;
};

// Throws ProblemError for columns that are no record.
UndoneRecord undone(CachingRecord record, Bytes large_segment);

// An allocator in the state before the trace, and its block of each of `blocks` (kNone: not yet).
struct BegunReplay {
  CachingAllocator allocator;
  std::vector<Index> held;
};

BegunReplay begin_as_recorded(const UndoneRecord& start, const CachingSettings& settings);

}  // namespace memplan
