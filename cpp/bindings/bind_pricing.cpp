#include "arrays.hpp"
#include "memplan/pricing.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

PricedPlan price_plan(const Problem& problem, const std::vector<std::tuple<Index, Index, std::int64_t>>& prices,
                      py::handle start, std::optional<double> time_limit, std::uint64_t seed,
                      std::optional<Bytes> capacity, Bytes lower_bound, const py::object& tell, bool interruptible,
                      int tries, std::int64_t work) {
  const auto begin = std::chrono::steady_clock::now();
  Watch watch(tell, interruptible);
  std::vector<PairPrice> pairs;
  pairs.reserve(prices.size());
  for (const auto& [a, b, price] : prices) pairs.push_back({a, b, price});
  const std::vector<Bytes> offsets = int64_column(start, "start");
  PlanOptions options;
  options.time_limit = time_limit;
  options.start = begin;
  options.seed = seed;
  options.capacity = capacity;
  options.lower_bound = lower_bound;
  if (watch.can_stop()) options.stop = [&] { return watch.stop(); };
  OnPricedPlan told;
  if (watch.listens()) told = [&](const PricedPlan& plan) { watch.tell(plan); };
  PricedPlan plan = [&] {
    const py::gil_scoped_release release;
    return cheapest_sharing(problem, pairs, offsets, options, {tries, work}, told);
  }();
  plan.interrupted |= watch.interrupted(true);
  return plan;
}

}  // namespace

void bind_pricing(py::module_& m) {
  py::class_<PricedPlan>(m, "PricedPlan", "A plan, and what its pairs pay that share bytes; see pricing.hpp.")
      .def_property_readonly("offsets", column_property<PricedPlan>("offsets", &PricedPlan::offsets))
      .def_readonly("peak", &PricedPlan::peak)
      .def_readonly("price", &PricedPlan::price)
      .def_readonly("price_bound", &PricedPlan::price_bound)
      .def_readonly("peak_bound", &PricedPlan::peak_bound)
      .def_readonly("interrupted", &PricedPlan::interrupted)
      .def_readonly("seconds", &PricedPlan::seconds)
      .def_readonly("found_after", &PricedPlan::found_after);
  m.def("price_plan", &price_plan, py::arg("problem"), py::arg("prices"), py::arg("start"),
        py::arg("time_limit") = py::none(), py::arg("seed") = 0, py::arg("capacity") = py::none(),
        py::arg("lower_bound") = 0, py::arg("tell") = py::none(), py::arg("interruptible") = false,
        py::arg("tries") = PricingEffort().tries, py::arg("work") = PricingEffort().work,
        "From a plan, by its offsets, to one that pays less: rows of `prices` are (buffer, buffer, price). `tell` is\n"
        "called with each better plan. No plan peaks below `lower_bound`.");
}

}  // namespace memplan::bindings
