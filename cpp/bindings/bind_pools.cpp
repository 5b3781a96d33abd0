#include "arrays.hpp"
#include "chosen.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/pools.hpp"
#include "memplan/sharing_bound.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using PinsInPools = std::vector<std::tuple<Index, std::size_t, Bytes>>;
using ReservedInPools = std::vector<std::tuple<std::size_t, Bytes, Bytes, Step, Step>>;

PlanInPools plan_pools(const Problem& problem,
                       const std::vector<std::tuple<std::string, std::optional<Bytes>, Bytes>>& pools, py::handle cost,
                       const std::string& planner, std::optional<double> time_limit, std::uint64_t seed, int threads,
                       bool interruptible, const InPython& in_python, const PinsInPools& pins,
                       const ReservedInPools& reserved) {
  const py::object nobody = py::none();
  Watch watch(nobody, interruptible);
  const Chosen chosen(planner, in_python, watch);
  PoolsRequest request{problem, {}, int64_column(cost, "cost")};
  for (const auto& [name, capacity, alignment] : pools) request.pools.push_back({name, capacity, alignment});
  for (const auto& [buffer, pool, offset] : pins) request.pins.push_back({buffer, pool, offset});
  for (const auto& [pool, begin, end, first, last] : reserved)
    request.pools.at(pool).reserved.push_back({begin, end, first, last});
  PlanOptions options;
  options.time_limit = time_limit;
  options.seed = seed;
  options.threads = threads;
  if (watch.can_stop()) options.stop = [&] { return watch.stop(); };
  PlanInPools plan = [&] {
    const py::gil_scoped_release release;
    return solve_in_pools(request, chosen.planner(), options);
  }();
  plan.interrupted |= watch.interrupted(true);
  return plan;
}

}  // namespace

void bind_pools(py::module_& m) {
  py::class_<PlanInPools>(m, "PlanInPools", "Which buffer lies in which pool, and a plan per pool; see pools.hpp.")
      .def_property_readonly("pool", column_property<PlanInPools>("pool", &PlanInPools::pool))
      .def_readonly("plans", &PlanInPools::plans)
      .def_readonly("cost", &PlanInPools::cost)
      .def_readonly("cost_bound", &PlanInPools::cost_bound)
      .def_readonly("interrupted", &PlanInPools::interrupted)
      .def_readonly("seconds", &PlanInPools::seconds);
  m.def("plan_pools", &plan_pools, py::arg("problem"), py::arg("pools"), py::arg("cost"), py::arg("planner"),
        py::arg("time_limit") = py::none(), py::arg("seed") = 0, py::arg("threads") = 1,
        py::arg("interruptible") = false, py::arg("in_python") = py::none(), py::arg("pins") = PinsInPools{},
        py::arg("reserved") = ReservedInPools{},
        "Plans a problem in several pools: (name, capacity, alignment). `cost` has a number per buffer and pool, one\n"
        "buffer after another, and -1 where the pool does not take the buffer. Rows of `pins` are (buffer, pool,\n"
        "offset there), those of `reserved` (pool, begin, end, first, last); pools by position.");
  m.def(
      "sharing_bound",
      [](const Graph& graph, const StorageOptions& storage) {
        const HappensBefore order(graph);
        return sharing_bound(graph, order, storage, possible_sharing(graph, order, storage));
      },
      py::arg("graph"), py::arg("storage"), "Bytes that every plan of the graph in its order needs.");
}

}  // namespace memplan::bindings
