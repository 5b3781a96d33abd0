// Caching: the bytes that torch's caching allocator for CUDA would reserve for the buffers of a problem.
//
// The function follows the rules of c10/cuda/CUDACachingAllocator in torch 2.13, with standard settings:
//
//   - Sizes are rounded up to 512 bytes.
//   - Blocks of up to 1 MiB come from segments of 2 MiB. Larger blocks come from segments of 20 MiB. Blocks of 10 MiB
//     and more come from segments of their own size, rounded up to 2 MiB.
//   - The smallest free block that fits is taken. It is split if the rest is large enough.
//   - Free neighbours in a segment become one block. Segments are never given back.
#pragma once

#include "memplan/problem.hpp"

namespace memplan {

// Returns the bytes of all segments after the last step, or the largest int64 if they are more. Buffers are born and
// die in the order of their steps. At one step, deaths come before births. O(n log n).
Bytes reserved_by_caching(const Problem& problem);

}  // namespace memplan
