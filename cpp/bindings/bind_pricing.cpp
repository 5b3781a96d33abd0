#include <charconv>
#include <string_view>
#include <unordered_map>

#include "arrays.hpp"
#include "asked.hpp"
#include "memplan/pricing.hpp"

namespace memplan::bindings {

namespace {

std::vector<PairPrice> pairs_of(const Problem& problem, const py::array_t<std::int64_t>& rows) {
  if (rows.size() == 0) return {};
  if (rows.ndim() != 2 || rows.shape(1) != 3) throw py::value_error("prices must be rows (buffer, buffer, price)");
  const auto at = rows.unchecked<2>();
  const auto buffer = [&](std::int64_t position) {
    if (position < 0 || position >= problem.count())
      throw py::value_error("prices must name buffers by position, got " + std::to_string(position));
    return static_cast<Index>(position);
  };
  std::vector<PairPrice> pairs;
  pairs.reserve(static_cast<std::size_t>(rows.shape(0)));
  for (py::ssize_t k = 0; k < rows.shape(0); ++k) pairs.push_back({buffer(at(k, 0)), buffer(at(k, 1)), at(k, 2)});
  return pairs;
}

// Of "#3", 3; -1 for what is no such name of one of `count` buffers.
std::int64_t position_in(std::string_view name, std::int64_t count) {
  if (name.size() < 2 || name[0] != '#' || (name[1] == '0' && name.size() > 2)) return -1;
  std::int64_t position = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), position);
  const bool whole = error == std::errc() && end == name.data() + name.size() && name[1] != '-';
  return whole && position < count ? position : -1;
}

// Of a graph, names are those of its tensors, too; -1 for what has no buffer.
py::array_t<std::int64_t> positions_of(const py::list& names, const Problem& problem, const Graph* graph,
                                       const Buffers* buffers) {
  std::unordered_map<std::string_view, std::int64_t> position;
  for (const std::string& name : problem.names()) position.emplace(name, static_cast<std::int64_t>(position.size()));
  const bool plain = problem.names().empty() && graph == nullptr;
  const auto find = [&](std::string_view name) -> std::int64_t {
    if (plain) return position_in(name, problem.count());
    if (const auto t = graph == nullptr ? std::nullopt : graph->find(name); t && buffers != nullptr)
      if (const Index b = buffers->buffer_of_tensor[at(*t)]; b != kNone) return b;
    const auto found = position.find(name);
    return found == position.end() ? kNone : found->second;
  };
  py::array_t<std::int64_t> positions(static_cast<py::ssize_t>(names.size()));
  auto row = positions.mutable_unchecked<1>();
  for (py::ssize_t k = 0; k < row.shape(0); ++k)
    row(k) = find(names[static_cast<std::size_t>(k)].cast<std::string_view>());
  return positions;
}

// The names of the pairs that pay.
std::vector<std::pair<std::string, std::string>> paying_names(const Problem& problem,
                                                              const py::array_t<std::int64_t>& prices,
                                                              py::handle offsets) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [a, b] : paying_pairs(problem, pairs_of(problem, prices), int64_column(offsets, "offsets")))
    names.emplace_back(problem.name(a), problem.name(b));
  return names;
}

PricedPlan price_plan(const Problem& problem, const py::array_t<std::int64_t>& prices, py::handle start,
                      const Asked& asked, int tries, std::int64_t work) {
  const auto begin = std::chrono::steady_clock::now();
  Call call(asked);
  const std::vector<PairPrice> pairs = pairs_of(problem, prices);
  const std::vector<Bytes> offsets = int64_column(start, "start");
  call.options.start = begin;
  OnPricedPlan told;
  if (call.watch.listens()) told = [&](const PricedPlan& plan) { call.watch.tell(plan); };
  PricedPlan plan = [&] {
    const py::gil_scoped_release release;
    return cheapest_sharing(problem, pairs, offsets, call.options, {tries, work}, told);
  }();
  plan.interrupted |= call.watch.interrupted(true);
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
  m.attr("PART_BEFORE_PRICES") = kPartBeforePrices;
  m.def("positions_of", &positions_of, py::arg("names"), py::arg("problem"), py::arg("graph") = py::none(),
        py::arg("buffers") = py::none(), "Of names, the positions of buffers; -1 for what names none.");
  m.def("paying_pairs", &paying_names, py::arg("problem"), py::arg("prices"), py::arg("offsets"),
        "The names of the pairs with a price that share bytes, by position.");
  m.def("price_plan", &price_plan, py::arg("problem"), py::arg("prices"), py::arg("start"),
        py::arg("options") = Asked(), py::arg("tries") = PricingEffort().tries, py::arg("work") = PricingEffort().work,
        "From a plan, by its offsets, to one that pays less: rows of `prices` are (buffer, buffer, price). `tell` of\n"
        "the options is called with each better plan. No plan peaks below their `lower_bound`.");
}

}  // namespace memplan::bindings
