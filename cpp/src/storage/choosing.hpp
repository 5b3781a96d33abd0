// Choosing: which tensors share bytes, so that the load is least.
//
// Op by op (sharing.hpp), each tensor shares bytes if that does not raise the load. So choices that help only together
// are not found, and an early choice may rule out a better one. Here the choice is made for the whole graph. If there
// are few subsets of the possible choices, all are tried. Otherwise one tensor at a time is changed, if that lowers the
// highest step.
//
// With several streams, the load does not say how much a plan needs. Then only a try of all subsets helps.
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
