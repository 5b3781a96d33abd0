// Random records of torch's allocator, most of which contradict themselves: a replay and a run of each end, count their
// contradictions, and reserve no less than they hold. Arguments: rounds, 5000 by default, and a seed.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.hpp"
#include "memplan/caching.hpp"
#include "memplan/errors.hpp"

using namespace memplan;

namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : generator_(seed) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(bound));
  }
  std::uint64_t any() { return generator_(); }

 private:
  std::mt19937_64 generator_;
};

CachingRecord drawn(Draw& draw) {
  CachingRecord record;
  const auto pools = 1 + draw.below(3);
  for (std::int64_t k = 0; k < pools; ++k)
    record.pools.push_back({draw.below(3) - 1, static_cast<Index>(draw.below(2))});
  std::vector<Address> addresses;
  std::vector<Bytes> sizes;
  for (int k = 0; k < 8; ++k) {
    const auto near = static_cast<Address>(draw.below(64)) * (draw.below(2) == 0 ? 512 : 2 << 20);
    addresses.push_back(draw.below(6) == 0 ? draw.any() : (Address{1} << 40) + near);
    sizes.push_back(draw.below(8) == 0   ? static_cast<Bytes>(draw.any() >> 2)
                    : draw.below(2) == 0 ? draw.below(3000)
                                         : draw.below(64) << 20);
  }
  const auto address = [&] { return addresses[at(draw.below(8))]; };
  const auto size = [&] { return sizes[at(draw.below(8))]; };
  const auto pool = [&] { return static_cast<Index>(draw.below(pools)); };
  for (auto k = draw.below(60); k > 0; --k)
    record.events.push_back({static_cast<CachingAction>(draw.below(8)), address(), size(), pool()});
  for (auto k = draw.below(5); k > 0; --k)
    record.segments.push_back({address(), size(), pool(), draw.below(2) == 0, draw.below(2) == 0});
  for (auto k = draw.below(6); k > 0; --k) record.blocks.push_back({address(), size(), size(), pool()});
  return record;
}

CachingSettings settings(Draw& draw) {
  CachingSettings made;
  made.expandable_segments = draw.below(2) == 0;
  made.ties = static_cast<CachingTies>(draw.below(3));
  if (draw.below(3) == 0) made.max_split_size = 20 << 20;
  if (draw.below(3) == 0) made.roundup_divisions.fill(draw.below(5));
  if (draw.below(3) == 0) made.capacity = draw.below(400) << 20;
  if (draw.below(4) == 0) {
    made.limit = draw.below(300) << 20;
    made.garbage_collection_threshold = 0.5;
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5000;
  Draw draw(argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 1);
  for (int round = 0; round < rounds; ++round) {
    const CachingSettings chosen = settings(draw);
    const CachingTrace trace(drawn(draw));
    const CachingReplay found = trace.replay(chosen);
    CHECK(found.reserved >= found.allocated);
    CHECK(found.equal_addresses <= found.allocations);
    const CachingRun run = trace.reserve(chosen);
    CHECK(run.reserved >= run.allocated);
    CHECK(run.reserved <= chosen.capacity);
    const std::int64_t last = draw.below(60) - 1;
    for (const bool as_recorded : {false, true}) {
      const CachingState state = trace.state_after(chosen, last, as_recorded);
      Bytes held = 0, whole = 0;
      for (const Bytes size : state.size) held += size;
      for (const CachingSegment& segment : state.segments) whole += segment.size;
      CHECK(held == whole);
    }
  }
  return check::finish();
}
