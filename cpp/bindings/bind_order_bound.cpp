#include "bindings.hpp"
#include "memplan/order_bound.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using HeldTuple = std::tuple<Index, Bytes, Index, Bytes>;
using PassedTuple = std::tuple<Index, Index, Bytes>;
using AliveTuple = std::tuple<Index, Bytes, bool>;
using NeedTuple = std::tuple<Index, std::vector<Index>, std::vector<Index>, Bytes, std::vector<HeldTuple>,
                             std::vector<PassedTuple>, std::vector<AliveTuple>>;

NeedTuple tuple_of(const OrderNeed& need) {
  std::vector<HeldTuple> held;
  for (const auto& [tensor, begin, user, bytes] : need.held) held.emplace_back(tensor, begin, user, bytes);
  std::vector<PassedTuple> passed;
  for (const auto& [op, before, bytes] : need.passed) passed.emplace_back(op, before, bytes);
  std::vector<AliveTuple> alive;
  for (const auto& [tensor, bytes, always] : need.alive) alive.emplace_back(tensor, bytes, always);
  return {need.op, need.before, need.after, need.bytes, std::move(held), std::move(passed), std::move(alive)};
}

std::tuple<Bytes, std::vector<Index>, std::vector<NeedTuple>> bound_of_graph(const Graph& graph,
                                                                             const StorageOptions& storage,
                                                                             std::int64_t work) {
  const py::object nobody = py::none();
  Watch watch(nobody, true);
  const OrderBound bound = [&] {
    const py::gil_scoped_release release;
    return order_bound(graph, storage, work, [&] { return watch.stop(); });
  }();
  std::vector<NeedTuple> needs;
  for (const OrderNeed& need : bound.needs) needs.push_back(tuple_of(need));
  return {bound.bytes, bound.ops, std::move(needs)};
}

}  // namespace

void bind_order_bound(py::module_& m) {
  m.def("order_bound", &bound_of_graph, py::arg("graph"), py::arg("storage") = StorageOptions(),
        py::arg("work") = 100'000'000,
        "What every order needs: bytes, ops, and needs (op, before, after, bytes, held, passed, alive), -1 for none;\n"
        "held are (tensor, begin, user, bytes), passed (op, before, bytes), alive (tensor, bytes, always). The GIL is "
        "released.");
  m.def("beside_reserved", &beside_reserved, py::arg("graph"), py::arg("bytes"),
        "The lowest address below which so many bytes lie beside what is reserved at all steps.");
}

}  // namespace memplan::bindings
