// Choosing: which tensors share bytes, so that the load is least.
//
// Op by op (sharing.hpp), each tensor shares bytes if that raises no load at once. So choices that help only together
// are not found, and an early choice may rule out a better one. Here the choice is made for the whole graph: all
// subsets of what may be shared, if they are few; else changes of one tensor at a time that lower the highest step.
//
// With several streams the load is not what a plan needs, and only all subsets say something.
#pragma once

#include <cstdint>
#include <vector>

#include "memplan/buffers.hpp"

namespace memplan {

struct Choice {
  std::vector<Shared> shared;
  Bytes load = 0;
};

struct Choices {
  std::vector<Choice> lowest;  // different choices, lowest loads first
  bool all = false;            // no other choices are safe
};

// Choices among `possible`, from `start` on. O(work), in steps of some ten nanoseconds, but for one look at each start.
Choices choose_sharing(const Graph& graph, const StorageOptions& options, std::span<const Shared> possible,
                       std::span<const Shared> start, std::int64_t work);

}  // namespace memplan
