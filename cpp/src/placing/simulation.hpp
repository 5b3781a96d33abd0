// Simulation: buffers are born and die step by step, and a fit chooses the free block for each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/deadline.hpp"
#include "base/sorting.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "placing/free_blocks.hpp"

namespace memplan {

// If rows are not in the order of time, the next rows lie anywhere in memory. They are prefetched, so that nothing
// waits for them.
class Ahead {
 public:
  Ahead(const std::array<const std::int64_t*, 4>& columns, const std::vector<Index>& order)
      : columns_(columns), order_(order) {}

  // What comes soon after that place in the order. Not a function of its own: g++ takes what asks only for one without
  // an effect, and leaves its calls out.
#if defined(__GNUC__)
  [[gnu::always_inline]]
#endif
  inline void ask(std::size_t place) const {
    if (place + kAhead >= order_.size()) return;
    [[maybe_unused]] const Index i = order_[place + kAhead];
#if defined(__GNUC__)
    __builtin_prefetch(columns_[0] + i);
    __builtin_prefetch(columns_[1] + i);
    __builtin_prefetch(columns_[2] + i);
    __builtin_prefetch(columns_[3] + i);
#endif
  }

 private:
  static constexpr std::size_t kAhead = 16;
  const std::array<const std::int64_t*, 4> columns_;
  const std::vector<Index>& order_;
};

// At each step, dying buffers are given back first. Then each buffer that is born takes the block that choose(blocks,
// size, alignment) names, or the top of the arena if it names no block; offsets[i] is set to it. Ties go by index. Once
// the deadline passes, buffers not yet born keep their offsets. O(n log n) besides `choose`.
template <class Choose>
void simulate(const Problem& problem, const Deadline& deadline, std::vector<Bytes>& offsets, Choose&& choose) {
  constexpr std::size_t kTicksPerLife = 32;
  const std::vector<Index> births = sorted_by(problem.first());
  const std::vector<Index> deaths = sorted_by(problem.last());
  FreeBlocks blocks;
  const std::int64_t *const size = problem.size().data(), *const offset = offsets.data();
  const Ahead births_ahead({problem.first().data(), problem.alignment().data(), size, offset}, births);
  const Ahead deaths_ahead({problem.last().data(), size, offset, offset}, deaths);
  std::size_t dead = 0;
  for (std::size_t k = 0; k < births.size(); ++k) {
    const Index born = births[k];
    births_ahead.ask(k);
    for (; dead < deaths.size() && problem.last(deaths[dead]) <= problem.first(born); ++dead) {
      deaths_ahead.ask(dead);
      if (problem.size(deaths[dead]) > 0) blocks.give_back(offsets[at(deaths[dead])], problem.size(deaths[dead]));
    }
    deadline.tick(kTicksPerLife);
    if (problem.size(born) == 0) {
      offsets[at(born)] = 0;
      continue;
    }
    const std::optional<Bytes> inside = choose(blocks, problem.size(born), problem.alignment(born));
    const Bytes where = inside ? *inside : blocks.on_top(problem.alignment(born));
    blocks.take(where, problem.size(born));
    offsets[at(born)] = where;
  }
}

template <class Choose>
Placement simulate(const Problem& problem, const PlanOptions& options, Choose&& choose) {
  Placement placement;
  placement.offsets.assign(problem.size().size(), 0);
  simulate(problem, Deadline(options), placement.offsets, choose);
  return placement;
}

}  // namespace memplan
