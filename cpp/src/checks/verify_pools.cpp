#include "memplan/verify_pools.hpp"

#include "memplan/errors.hpp"

namespace memplan {

namespace {

void require_rows(const char* what, std::size_t rows, std::size_t expected) {
  if (rows != expected)
    throw ProblemError(std::string(what) + " must have " + std::to_string(expected) + " rows, got " +
                       std::to_string(rows));
}

// `offset` from the beginning of the pool.
bool is_aligned(const PoolRange& pool, Bytes offset, Bytes alignment) {
  return (pool.base % alignment + offset % alignment) % alignment == 0;
}

}  // namespace

std::vector<PoolFault> pool_faults(const Problem& problem, std::span<const Bytes> offsets,
                                   std::span<const PoolRange> pools, std::span<const Index> pool,
                                   std::span<const char> takes) {
  const std::size_t count = at(problem.count());
  require_rows("offsets", offsets.size(), count);
  require_rows("pool", pool.size(), count);
  if (!takes.empty()) require_rows("takes", takes.size(), count * pools.size());
  std::vector<PoolFault> faults;
  const auto text = [](Bytes bytes) { return std::to_string(bytes); };
  Bytes end = 0;
  for (const PoolRange& range : pools) {
    const std::string name = "pool " + quoted(range.name);
    if (range.begin < end)
      faults.push_back({name + " begins at " + text(range.begin) + ", where another pool ends at " + text(end)});
    end = saturated_add(range.begin, range.peak);
    if (range.capacity && range.peak > *range.capacity)
      faults.push_back({name + " has " + text(*range.capacity) + " bytes, and needs " + text(range.peak)});
  }
  for (Index b = 0; b < problem.count(); ++b) {
    const auto fault = [&](const std::string& what) {
      faults.push_back({"buffer " + quoted(problem.name(b)) + " " + what});
    };
    const Index p = pool[at(b)];
    if (p < 0 || at(p) >= pools.size()) {
      fault("lies in pool " + text(p) + ", and there are " + std::to_string(pools.size()));
      continue;
    }
    const PoolRange& range = pools[at(p)];
    const Bytes inside = offsets[at(b)] - range.begin;
    const auto in_pool = [&] { return "in pool " + quoted(range.name); };
    if (inside < 0 || inside > range.peak - problem.size(b))
      fault("of " + text(problem.size(b)) + " bytes at " + text(inside) + " is not inside of pool " +
            quoted(range.name));
    if (!is_aligned(range, inside, problem.alignment(b)) || !is_aligned(range, inside, range.alignment))
      fault("at " + text(range.base + inside) + " " + in_pool() + " is not aligned");
    if (!takes.empty() && takes[at(b) * pools.size() + at(p)] == 0)
      fault("lies " + in_pool() + ", which does not take it");
  }
  return faults;
}

}  // namespace memplan
