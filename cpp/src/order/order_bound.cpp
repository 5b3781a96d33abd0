#include "memplan/order_bound.hpp"

#include <numeric>

#include "order/bound.hpp"
#include "problem/reserved.hpp"

namespace memplan {

OrderBound order_bound(const Graph& graph, const StorageOptions& storage, std::int64_t work,
                       const std::function<bool()>& stop) {
  if (!has_contents_model(graph)) return {};
  const ContentsModel model(graph, storage);
  std::vector<Index> order(graph.ops().size());
  std::iota(order.begin(), order.end(), Index{0});
  Limits limits;
  limits.stop = stop;
  return bound_of(model, order, work, Deadline(limits));
}

Bytes beside_reserved(const Graph& graph, Bytes bytes) {
  return end_beside(throughout(graph.layout().reserved, 0, static_cast<Step>(graph.op_count())), bytes);
}

}  // namespace memplan
