#include "in_order.hpp"

namespace memplan {

std::vector<Index> with_bytes(const Problem& problem) {
  std::vector<Index> order;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0) order.push_back(i);
  return order;
}

}  // namespace memplan
