#include <variant>

#include "bindings.hpp"
#include "memplan/registry.hpp"
#include "python_planner.hpp"

namespace memplan::bindings {

namespace {

std::vector<std::string> supported(const PlannerInfo& planner) {
  std::vector<std::string> names;
  for (std::string_view name : feature_names(planner.supports)) names.emplace_back(name);
  return names;
}

}  // namespace

void bind_planners(py::module_& m) {
  py::class_<Parameter>(m, "Parameter", "A number or a word that a planner takes, as in 'beam:k=16'.")
      .def_readonly("name", &Parameter::name)
      .def_readonly("title", &Parameter::title)
      .def_property_readonly(
          "standard",
          [](const Parameter& p) -> std::variant<std::int64_t, std::string> {
            if (p.words.empty()) return p.standard;
            return std::string(p.words[at(p.standard)]);
          },
          "The value used unless another is given.")
      .def_readonly("least", &Parameter::least)
      .def_readonly("most", &Parameter::most)
      .def_property_readonly(
          "words", [](const Parameter& p) { return std::vector<std::string>(p.words.begin(), p.words.end()); },
          "The words that it can be; empty for a number in [least, most].");
  py::class_<PlannerInfo>(m, "PlannerInfo", "A row of the registry: what a planner is, supports, and comes from.")
      .def_readonly("name", &PlannerInfo::name)
      .def_readonly("title", &PlannerInfo::title)
      .def_readonly("exact", &PlannerInfo::exact, "Whether it finds an optimum, given time.")
      .def_property_readonly("supports", &supported, "Names of the features that it supports.")
      .def_property_readonly(
          "parameters",
          [](const PlannerInfo& p) { return std::vector<Parameter>(p.parameters.begin(), p.parameters.end()); })
      .def_readonly("complexity", &PlannerInfo::complexity,
                    "For n buffers and r separate byte ranges in use at a time.")
      .def_readonly("source", &PlannerInfo::source, "Document, paper or project.")
      .def_readonly("alias", &PlannerInfo::alias, "Another name that it goes by; empty for none.")
      .def("__repr__", [](const PlannerInfo& p) { return "<memplan planner '" + std::string(p.name) + "'>"; });
  py::class_<PythonPlanner>(
      m, "PythonPlanner",
      "A planner written in Python, as the core runs it. `run` is called with (problem, time_limit,\n"
      "seed, threads, capacity, settings, tell) and gives (offsets, lower_bound, objects, interrupted).")
      .def(py::init<std::string, std::string, const std::vector<std::string>&,
                    const std::vector<PythonPlanner::ParameterTuple>&, py::function>(),
           py::arg("name"), py::arg("package"), py::arg("supports"), py::arg("parameters"), py::arg("run"));
  m.def(
      "planners",
      [] {
        const auto rows = planners();
        return std::vector<PlannerInfo>(rows.begin(), rows.end());
      },
      "The registry's rows, in its order.");
}

}  // namespace memplan::bindings
