// pushdown: MegEngine's name for the allocator that its document on static memory analysis describes. A first pass lets
// free blocks grow, and a second pushes all buffers down to their final addresses: that is `megengine`, under the name
// by which those who know the source look for it.
//
// Complexity: O(n log n). Guarantee: none.
// Source: MegEngine, src/core/impl/graph/var_node_mem_mgr/static_mem_alloc/pushdown.cpp.
#include "planners/planners.hpp"

namespace memplan {

Placement pushdown(const Problem& problem, const PlanOptions& options) { return megengine(problem, options); }

}  // namespace memplan
