// tlsf_replay: runs births and deaths, in order, through a two-level segregated fit allocator, and keeps the offsets
// that it gives. Free blocks are kept in classes: the first level is the position of the highest bit of the size, the
// second splits that range into equal parts.
//
//     size     … 64      128     256     512 …      first level: powers of two
//                |.|.|.|.|.|.|.|.|. . . . |         second level: `splits` parts of each
//
// A request searches from the first class whose blocks are all large enough. Of a class, it takes the block that was
// freed longest ago, and gives back the bytes that it does not need. A death joins free neighbours. At one step, deaths
// come before births. Births are sorted by index, deaths by birth.
//
// As in tinygrad, the arena is twice as large as all requests together, so a request always fits. tinygrad rounds sizes
// to blocks of 4096 bytes and has 32 splits: that is "tlsf_replay:block=4096". By default, sizes are not rounded here.
//
// Complexity: O(n log n). Guarantee: none.
// Source: tinygrad, memory_planner and TLSFAllocator; Masmano et al., TLSF: a new dynamic memory allocator for
// real-time systems, 2004.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "memplan/errors.hpp"
#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

using Size = std::uint64_t;  // twice the sum of the sizes has to fit

Size round_up(Size value, Size multiple) {
  const Size excess = value % multiple;
  return excess == 0 ? value : value + (multiple - excess);
}

class SegregatedFit {
 public:
  SegregatedFit(Size arena, Size splits) : split_bits_(bits(splits)) { insert(0, arena); }

  // Where the request begins; its size is > 0, and the arena is large enough.
  Size take(Size size, Size alignment) {
    const Size wanted = size + (alignment - 1);
    const auto found = classes_.lower_bound({class_of(round_up(wanted, class_width(wanted))), 0, 0});
    const Size block = std::get<2>(*found);
    const Size end = block + free_.at(block).size;
    erase(block);
    const Size begin = round_up(block, alignment);
    insert(block, begin);
    insert(begin + size, end);
    return begin;
  }

  void give_back(Size begin, Size size) {
    Size end = begin + size;
    const auto after = free_.lower_bound(begin);
    if (after != free_.begin())
      if (const auto& [before, block] = *std::prev(after); before + block.size == begin) begin = before;
    if (after != free_.end() && after->first == end) {
      end += after->second.size;
      erase(after->first);
    }
    if (free_.contains(begin)) erase(begin);
    insert(begin, end);
  }

 private:
  struct Block {
    Size size;
    Size made;  // blocks of a class are taken in the order in which they were made
  };
  using Class = std::pair<int, Size>;  // first level, second level

  static int bits(Size size) { return static_cast<int>(std::bit_width(size)); }
  Size class_width(Size size) const { return Size{1} << std::max(0, bits(size) - split_bits_); }
  Class class_of(Size size) const { return {bits(size), (size - std::bit_floor(size)) / class_width(size)}; }

  void insert(Size begin, Size end) {
    if (begin == end) return;
    classes_.insert({class_of(end - begin), made_, begin});
    free_[begin] = {end - begin, made_++};
  }

  void erase(Size begin) {
    const auto block = free_.find(begin);
    classes_.erase({class_of(block->second.size), block->second.made, begin});
    free_.erase(block);
  }

  int split_bits_;
  Size made_ = 0;
  std::map<Size, Block> free_;                       // by address
  std::set<std::tuple<Class, Size, Size>> classes_;  // class, made, address
};

struct Request {
  Step step;
  bool birth;  // deaths come first
  std::size_t rank;
  Index buffer;

  auto operator<=>(const Request&) const = default;
};

std::vector<Request> events_of(const Problem& problem, const Deadline& deadline) {
  const std::vector<Index> births = by_birth(problem);
  std::vector<Request> events;
  for (std::size_t rank = 0; rank < births.size(); ++rank) {
    events.push_back({problem.first(births[rank]), true, rank, births[rank]});
    events.push_back({problem.last(births[rank]), false, rank, births[rank]});
  }
  std::sort(events.begin(), events.end(), deadline.ticking(std::less<>()));
  return events;
}

// Twice what all requests take together, with the padding of their alignment.
Size arena_for(const Problem& problem, Size block) {
  Size total = 0;
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size(i) == 0) continue;
    total += round_up(static_cast<Size>(problem.size(i)), block) + static_cast<Size>(problem.alignment(i) - 1);
    if (total > static_cast<Size>(kMaxBytes))
      throw UnsupportedError("planner 'tlsf_replay' takes at most 2^63 - 1 bytes, this problem has more in blocks of " +
                             std::to_string(block));
  }
  return 2 * total;
}

}  // namespace

Placement tlsf_replay(const Problem& problem, const PlanOptions& options) {
  constexpr std::size_t kTicksPerEvent = 32;
  const Deadline deadline(options);
  const Size block = static_cast<Size>(options.get(kTlsfReplay[0]));
  SegregatedFit arena(arena_for(problem, block), static_cast<Size>(options.get(kTlsfReplay[1])));
  Placement placement;
  placement.offsets.assign(problem.size().size(), 0);
  for (const Request& event : events_of(problem, deadline)) {
    deadline.tick(kTicksPerEvent);
    Bytes& offset = placement.offsets[at(event.buffer)];
    const Size size = round_up(static_cast<Size>(problem.size(event.buffer)), block);
    if (event.birth)
      offset = static_cast<Bytes>(arena.take(size, static_cast<Size>(problem.alignment(event.buffer))));
    else
      arena.give_back(static_cast<Size>(offset), size);
  }
  return placement;
}

}  // namespace memplan
