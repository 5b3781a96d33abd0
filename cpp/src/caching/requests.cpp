#include <algorithm>
#include <vector>

#include "caching/allocator.hpp"
#include "memplan/caching.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr CachingPool kOnePool[] = {{0, 0}};

}  // namespace

Bytes reserved_by_caching(const Problem& problem) {
  CachingAllocator allocator({}, kOnePool);
  const std::vector<Index> deaths = by_death(problem);
  std::vector<Index> held(at(problem.count()));
  std::size_t dead = 0;
  for (const Index i : by_birth(problem)) {
    for (; problem.last(deaths[dead]) <= problem.first(i); ++dead) allocator.free(held[at(deaths[dead])]);
    held[at(i)] = allocator.allocate(problem.size(i), 0);
    if (held[at(i)] == kNone) return kMaxBytes;
    allocator.changes().clear();
  }
  return allocator.reserved();
}

CachingRun reserve(std::span<const std::int64_t> rows, std::span<const Bytes> size, const CachingSettings& settings) {
  CachingAllocator allocator(settings, kOnePool);
  CachingRun run;
  std::vector<Index> held(rows.size(), kNone);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (rows[k] >= 0) {
      held[k] = allocator.allocate(size[k], 0);
      if (held[k] == kNone && run.ran_out_at < 0) run.ran_out_at = static_cast<std::int64_t>(k);
    } else if (Index& b = held[at(-1 - rows[k])]; b != kNone) {
      allocator.free(b);
      b = kNone;
    }
    allocator.changes().clear();
    run.allocated = std::max(run.allocated, allocator.allocated());
    if (allocator.reserved() > run.reserved) {
      run.reserved = allocator.reserved();
      run.peak_at = static_cast<std::int64_t>(k);
    }
    run.reserved_after.push_back(allocator.reserved());
    run.allocated_after.push_back(allocator.allocated());
  }
  run.retries = allocator.retries();
  return run;
}

}  // namespace memplan
