// megengine: simulates births and deaths over a row of blocks that have no addresses yet. Each buffer takes the
// tightest free block that fits, and cuts it. If none fits, the largest free block grows, and the blocks above shift.
// If none is free, a block is added at the end. At last, addresses follow from the order of neighbours.
//
//     ┌──────┬──────┬────┬──────┐  5 are asked for    ┌──────┬───────────┬────┬──────┐
//     │ used │ 3    │used│ 2    │ ─────────────────▶  │ used │  new 5    │used│ 2    │
//     └──────┴──────┴────┴──────┘                     └──────┴───────────┴────┴──────┘
//
// Each birth records the blocks in use just below and just above. The offset of a buffer is the highest end of all
// buffers that were recorded below it. So blocks shift only as far as necessary.
//
// A value that is written over in part is a chain of chunks, each inside the one before it, that moves as one:
//
//     ┌──────────────────────────┐   overwritten at 6   ┌──────┬─────────────┬─────┐
//     │ chunk 1, 20 MB           │ ───────────────────▶ │ free │ chunk 2, 10 │ free│
//     └──────────────────────────┘                      └──────┴─────────────┴─────┘
//
// A shaped buffer is such a chain: if some of its parts end, the chunk shrinks to the bytes between the lowest and the
// highest that will still be used. The bytes of parts that begin later are kept from the buffer's birth. Bytes in the
// middle are kept as long as there are others on both sides.
//
// Of buffers born together, those that die first come first, then those of lower index. Of equally tight free blocks,
// the one that has been free for longest is taken; of equally large ones, the one that became free last.
//
// Complexity: O(n log n), with the parts counted as buffers. Guarantee: none.
// Source: MegEngine's static memory analysis, its PUSHDOWN (static_mem_alloc/pushdown.cpp). In the document, only the
// block just below is recorded. That is not safe if a block grows, and MegEngine records the one above too.
#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr std::size_t kTicksPerEvent = 32;

// Bytes [begin, end) of a buffer that are kept in the steps [first, last).
struct Chunk {
  Index buffer;
  Bytes begin;
  Bytes end;
  Step first;
  Step last;
  bool overwrites = false;   // the chunk before it in the table
  bool overwritten = false;  // by the chunk after it in the table

  Bytes size() const { return end - begin; }
};

// What a buffer keeps, from birth on.
void add_chain(const Problem& problem, Index i, std::vector<Chunk>& chunks) {
  std::vector<Part> parts;
  problem.for_each_part(i, [&](const Part& part) { parts.push_back(part); });
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.last > b.last; });
  const std::size_t before = chunks.size();
  Bytes begin = kMaxBytes;
  Bytes end = 0;
  for (const Part& part : parts) {  // the last chunk first
    const bool wider = part.begin < begin || part.end > end;
    begin = std::min(begin, part.begin);
    end = std::max(end, part.end);
    if (!wider) continue;
    if (chunks.size() == before || part.last < chunks.back().last) {
      chunks.push_back({i, begin, end, problem.first(i), part.last});
    } else {
      chunks.back().begin = begin;
      chunks.back().end = end;
    }
  }
  std::reverse(chunks.begin() + static_cast<std::ptrdiff_t>(before), chunks.end());
  for (std::size_t c = before + 1; c < chunks.size(); ++c) {
    chunks[c].first = chunks[c - 1].last;
    chunks[c].overwrites = chunks[c - 1].overwritten = true;
  }
}

// The blocks in address order; relations between buffers are recorded as they come to lie next to each other.
class Row {
 public:
  Row(const Problem& problem, std::span<const Chunk> chunks)
      : problem_(problem), chunks_(chunks), block_of_(chunks.size()), next_(problem.size().size() + 1, kNone) {}

  void allocate(std::size_t chunk);
  void overwrite(std::size_t chunk);  // the one before it
  void free(std::size_t chunk);

  std::vector<Bytes> offsets(const Deadline& deadline);

 private:
  static constexpr std::size_t kFree = static_cast<std::size_t>(-1);

  struct Block {
    std::size_t chunk;  // kFree: none
    Bytes size;
    std::uint64_t number = 0;  // for free blocks: how many became free before
  };
  using Blocks = std::list<Block>;
  using Position = Blocks::iterator;

  // The buffer `above` begins at least `distance` above where `below` does.
  struct Relation {
    Index below;
    Index above;
    Bytes distance;
  };

  Position best();
  void give_back(Position before, Bytes size);
  void forget(Position block);
  Position used_below(Position block);
  Position used_above(Position block);
  void record(Position block);
  void relate(std::size_t below, std::size_t above);
  Index& after(Index i) { return i == kNone ? next_.back() : next_[at(i)]; }

  const Problem& problem_;
  std::span<const Chunk> chunks_;
  std::vector<Position> block_of_;
  Blocks blocks_;
  std::map<std::pair<Bytes, std::uint64_t>, Position> free_;  // by size, then by age
  std::uint64_t freed_ = 0;
  std::vector<Relation> relations_;
  std::vector<Index> next_;  // all buffers so far, dead ones too, each after those below it; last: the first of them
};

void Row::allocate(std::size_t chunk) {
  const Bytes size = chunks_[chunk].size();
  Position block = blocks_.end();
  if (free_.empty()) {
    block = blocks_.insert(blocks_.end(), {chunk, size});
  } else {
    const auto tightest = free_.lower_bound({size, 0});
    block = tightest != free_.end() ? tightest->second : std::prev(free_.end())->second;
    free_.erase({block->size, block->number});
    const Bytes left = std::max(Bytes{0}, block->size - size);
    *block = {chunk, size};
    give_back(std::next(block), left);
  }
  block_of_[chunk] = block;
  const Position below = used_below(block);
  const Index anchor = below == blocks_.end() ? kNone : chunks_[below->chunk].buffer;
  const Index buffer = chunks_[chunk].buffer;
  after(buffer) = std::exchange(after(anchor), buffer);
  record(block);
}

void Row::overwrite(std::size_t chunk) {
  const Chunk& from = chunks_[chunk - 1];
  const Chunk& to = chunks_[chunk];
  const Position block = block_of_[chunk - 1];
  *block = {chunk, to.size()};
  give_back(block, to.begin - from.begin);
  give_back(std::next(block), from.end - to.end);
  block_of_[chunk] = block;
  record(block);
}

void Row::free(std::size_t chunk) {
  const Bytes size = block_of_[chunk]->size;
  give_back(blocks_.erase(block_of_[chunk]), size);
}

// Free bytes come to lie before that block, and join free neighbours.
void Row::give_back(Position before, Bytes size) {
  if (size == 0) return;
  if (before != blocks_.end() && before->chunk == kFree) {
    size += before->size;
    forget(before++);
  }
  if (before != blocks_.begin() && std::prev(before)->chunk == kFree) {
    size += std::prev(before)->size;
    forget(std::prev(before));
  }
  const Position block = blocks_.insert(before, {kFree, size, freed_++});
  free_.emplace(std::pair(block->size, block->number), block);
}

void Row::forget(Position block) {
  free_.erase({block->size, block->number});
  blocks_.erase(block);
}

// The nearest used block below; end() where there is none. No two free blocks touch.
Row::Position Row::used_below(Position block) {
  for (int looks = 0; looks < 2 && block != blocks_.begin(); ++looks)
    if ((--block)->chunk != kFree) return block;
  return blocks_.end();
}

Row::Position Row::used_above(Position block) {
  if (++block != blocks_.end() && block->chunk == kFree) ++block;
  return block;
}

void Row::record(Position block) {
  if (const Position below = used_below(block); below != blocks_.end()) relate(below->chunk, block->chunk);
  if (const Position above = used_above(block); above != blocks_.end()) relate(block->chunk, above->chunk);
}

void Row::relate(std::size_t below, std::size_t above) {
  relations_.push_back({chunks_[below].buffer, chunks_[above].buffer, chunks_[below].end - chunks_[above].begin});
}

// From the lowest buffer up: when its turn comes, all those below it have their offsets.
std::vector<Bytes> Row::offsets(const Deadline& deadline) {
  std::stable_sort(relations_.begin(), relations_.end(),
                   deadline.ticking([](const Relation& a, const Relation& b) { return a.below < b.below; }));
  std::vector<Bytes> offsets(problem_.size().size(), 0);
  for (Index i = next_.back(); i != kNone; i = after(i)) {
    deadline.tick(kTicksPerEvent);
    Bytes& offset = offsets[at(i)];
    offset = align_up(offset, problem_.alignment(i));
    auto relation = std::lower_bound(relations_.begin(), relations_.end(), i,
                                     [](const Relation& r, Index below) { return r.below < below; });
    for (; relation != relations_.end() && relation->below == i; ++relation) {
      Bytes& other = offsets[at(relation->above)];
      other = std::max(other, offset + relation->distance);
    }
  }
  return offsets;
}

// What happens at a step, in this order. An overwrite is the last thing that happens in the step before the one at
// which the overwritten chunk ends: what is born at that step finds its bytes free.
enum class Kind { kOverwrite, kFree, kAllocate };

struct ChunkEvent {
  Step step;
  Kind kind;
  std::size_t chunk;
};

std::vector<ChunkEvent> events_of(std::span<const Chunk> chunks, const Deadline& deadline) {
  std::vector<ChunkEvent> events;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    events.push_back({chunks[c].first, chunks[c].overwrites ? Kind::kOverwrite : Kind::kAllocate, c});
    if (!chunks[c].overwritten) events.push_back({chunks[c].last, Kind::kFree, c});
  }
  const auto key = [&](const ChunkEvent& e) {
    return std::tuple(e.step, e.kind, chunks[e.chunk].first, chunks[e.chunk].last, e.chunk);
  };
  std::sort(events.begin(), events.end(),
            deadline.ticking([&](const ChunkEvent& a, const ChunkEvent& b) { return key(a) < key(b); }));
  return events;
}

}  // namespace

Placement megengine(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  std::vector<Chunk> chunks;
  for (Index i : with_bytes(problem)) add_chain(problem, i, chunks);
  Row row(problem, chunks);
  for (const ChunkEvent& event : events_of(chunks, deadline)) {
    deadline.tick(kTicksPerEvent);
    switch (event.kind) {
      case Kind::kOverwrite: row.overwrite(event.chunk); break;
      case Kind::kFree: row.free(event.chunk); break;
      case Kind::kAllocate: row.allocate(event.chunk); break;
    }
  }
  Placement placement;
  placement.offsets = row.offsets(deadline);
  return placement;
}

}  // namespace memplan
