#include "arrays.hpp"
#include "asked.hpp"

namespace memplan::bindings {

namespace {

using RangeRow = std::tuple<Bytes, Bytes, Step, Step>;
// Name, capacity, alignment, base, cost, what it accepts, reserved bytes.
using PoolRow = std::tuple<std::string, std::optional<Bytes>, Bytes, Bytes, std::int64_t,
                           std::optional<std::vector<std::string>>, std::vector<RangeRow>>;
// Name, capacity, alignment, base, begin in the arena, peak.
using UsedRow = std::tuple<std::string, std::optional<Bytes>, Bytes, Bytes, Bytes, Bytes>;

std::vector<Pool> pools_of(const std::vector<PoolRow>& rows) {
  std::vector<Pool> pools;
  for (const auto& [name, capacity, alignment, base, cost, accepts, reserved] : rows) {
    pools.push_back({name, capacity, alignment, base, cost, accepts, {}});
    for (const auto& [begin, end, first, last] : reserved) pools.back().reserved.push_back({begin, end, first, last});
  }
  return pools;
}

PlanInPools plan_pools(const Problem& problem, const std::vector<PoolRow>& pools, const Layout& fixed,
                       py::handle accesses, const Asked& asked) {
  const std::vector<Pool> given = pools_of(pools);
  const std::vector<std::int64_t> counts = int64_column(accesses, "accesses");
  Call call(asked);
  const auto solve = [&] { return solve_in_pools(problem, given, call.planner(), call.options, fixed, counts); };
  return solved(call.watch, solve, true);
}

GraphInPools plan_graph_pools(const std::shared_ptr<Graph>& graph, const std::string& order,
                              const std::vector<PoolRow>& pools, const StorageOptions& storage,
                              const Accesses& accesses, const Asked& asked) {
  const std::vector<Pool> given = pools_of(pools);
  const ChosenOrder by = choose_order(order);
  Call call(asked);
  const auto solve = [&] {
    return solve_in_pools(graph, given, call.planner(), call.options, storage, by, accesses, call.on_order());
  };
  return solved(call.watch, solve, true);
}

// Which pools take which buffers, as rows.
py::array_t<bool> takes_of(const PlanInPools& found) {
  py::array_t<bool> takes({found.pool.size(), found.pools.size()});
  std::copy(found.takes.begin(), found.takes.end(), takes.mutable_data());
  return takes;
}

std::vector<PoolFault> faults_of(const Problem& problem, py::handle offsets, const std::vector<UsedRow>& pools,
                                 py::handle pool, const std::optional<py::array_t<bool, py::array::c_style>>& takes) {
  std::vector<PoolRange> ranges;
  for (const auto& [name, capacity, alignment, base, begin, peak] : pools)
    ranges.push_back({name, capacity, alignment, base, begin, peak});
  std::vector<Index> positions;
  for (const std::int64_t p : int64_column(pool, "pool")) positions.push_back(static_cast<Index>(p));
  std::vector<char> taken;
  if (takes) taken.assign(takes->data(), takes->data() + takes->size());
  return pool_faults(problem, int64_column(offsets, "offsets"), ranges, positions, taken);
}

}  // namespace

void bind_pools(py::module_& m) {
  py::class_<UsedPool>(m, "UsedPool", "A pool with what lies in it; see pools.hpp.")
      .def_readonly("begin", &UsedPool::begin)
      .def_readonly("peak", &UsedPool::peak)
      .def_readonly("lower_bound", &UsedPool::lower_bound)
      .def_readonly("buffers", &UsedPool::buffers)
      .def_readonly("accessed", &UsedPool::accessed);
  py::class_<PlanInPools>(m, "PlanInPools", "Which buffer lies in which pool, and where; see pools.hpp.")
      .def_readonly("problem", &PlanInPools::problem)
      .def_readonly("plan", &PlanInPools::plan)
      .def_property_readonly("pool", column_property<PlanInPools>("pool", &PlanInPools::pool))
      .def_readonly("pools", &PlanInPools::pools)
      .def_property_readonly("takes", &takes_of, "Which pools take which buffers: (n, pools) bool.")
      .def_readonly("accessed", &PlanInPools::accessed)
      .def_readonly("cost_bound", &PlanInPools::cost_bound)
      .def_property_readonly("pins",
                             [](const PlanInPools& found) {
                               std::vector<std::tuple<Index, std::size_t, Bytes>> rows;
                               for (const auto& [buffer, pool, offset] : found.pins)
                                 rows.emplace_back(buffer, pool, offset);
                               return rows;
                             })
      .def_property_readonly("reserved", [](const PlanInPools& found) {
        std::vector<std::tuple<std::size_t, Bytes, Bytes, Step, Step>> rows;
        for (const auto& [pool, range] : found.reserved)
          rows.emplace_back(pool, range.begin, range.end, range.first, range.last);
        return rows;
      });
  py::class_<GraphInPools>(m, "GraphInPools", "The plan of a graph in several pools; see pools.hpp.")
      .def_property_readonly("graph", [](const GraphInPools& g) { return std::const_pointer_cast<Graph>(g.graph); })
      .def_readonly("buffers", &GraphInPools::buffers)
      .def_readonly("found", &GraphInPools::found)
      .def_readonly("order_bound", &GraphInPools::order_bound);
  py::class_<PoolFault>(m, "PoolFault", "What is wrong with a plan in several pools.")
      .def_readonly("message", &PoolFault::message);
  m.def("plan_pools", &plan_pools, py::arg("problem"), py::arg("pools"), py::arg("fixed"), py::arg("accesses"),
        py::arg("options"),
        "Plans a problem in several pools: (name, capacity, alignment, base, cost of a byte, what it accepts,\n"
        "reserved rows). `fixed` says what is pinned and reserved, `accesses` how often each buffer is accessed.");
  m.def("plan_graph_pools", &plan_graph_pools, py::arg("graph"), py::arg("order"), py::arg("pools"), py::arg("storage"),
        py::arg("accesses"), py::arg("options"), "The same of a graph, in an order by name.");
  m.def("pool_faults", &faults_of, py::arg("problem"), py::arg("offsets"), py::arg("pools"), py::arg("pool"),
        py::arg("takes") = py::none(),
        "What is wrong with where buffers lie, in pools (name, capacity, alignment, base, begin, peak).");
}

}  // namespace memplan::bindings
