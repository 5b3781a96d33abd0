// Blocks: ops that run one right after another in some best order, in whichever order all others run.
//
//     a ─▶ b ─▶ c      b frees at least what it makes, and needs no more than a: b runs right after a
//                      b makes at least what it frees, and needs no more than c: b runs right before c
//
// The bytes of an op depend on what has run before. So a statement on a block has to hold after all sets of ops after
// which it may run: from the ops that it waits for, up to all ops that do not wait for it. docs/order.md has the proof.
//
// Complexity: O(m (b + u)) for blocks of b ops that use u contents, until the work or half of the remaining time is
// used; blocks joined by then are right. Memory: n^2 / 8 bytes. Guarantee: of the orders of least load, as the model
// counts it, one runs the ops of each block together.
#pragma once

#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "order/contents_model.hpp"

namespace memplan {

inline constexpr Index kMostOpsInBlocks = 20'000;  // of a graph; beyond, each op is a block

struct Blocks {
  std::vector<std::vector<Index>> ops;  // per block, in the order in which they run
  std::vector<Index> anchor;            // per block, the op that the others are moved to
};

// The deadline throws.
Blocks blocks_of(const ContentsModel& model, const Deadline& deadline);

// The ops of each block together, where its anchor is. Of no higher load.
std::vector<std::vector<Index>> in_blocks(const Blocks& blocks, std::span<const Index> order);

// The ops of blocks that follow one another.
std::vector<Index> joined(std::span<const std::vector<Index>> blocks);

}  // namespace memplan
