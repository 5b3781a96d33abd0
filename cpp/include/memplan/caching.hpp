// Caching: what torch's caching allocator for CUDA reserves for the buffers of a problem.
//
// It follows the rules of c10/cuda/CUDACachingAllocator in torch 2.13 with its standard settings:
//
//   - Sizes are rounded up to 512 bytes.
//   - Blocks of up to 1 MiB come from small segments, of 2 MiB. Larger blocks come from segments of 20 MiB or, from 10
//     MiB on, of their own size rounded up to 2 MiB.
//   - The smallest free block that fits is taken. It is split if what is left is worth it.
//   - Free neighbours in a segment become one. Segments are kept.
#pragma once

#include "memplan/problem.hpp"

namespace memplan {

// Bytes of all segments at the end, when the buffers are born and die in their order; the largest int64 if they are
// more. At one step deaths come before births. O(n log n).
Bytes reserved_by_caching(const Problem& problem);

}  // namespace memplan
