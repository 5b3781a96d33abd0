#include <memory>
#include <unordered_map>

#include "arrays.hpp"
#include "asked.hpp"

namespace memplan::bindings {

namespace {

using ByName = std::unordered_map<std::string, Bytes>;

Asked asked_for(std::string planner, InPython in_python, std::optional<double> time_limit, std::uint64_t seed,
                int threads, std::optional<Bytes> capacity, Bytes lower_bound, std::optional<ByName> earlier,
                const std::optional<py::object>& warm, py::object tell, py::object on_order, bool interruptible) {
  Asked asked{std::move(planner), std::move(in_python), {}, std::move(tell), std::move(on_order), interruptible};
  PlanOptions& options = asked.options;
  options.time_limit = time_limit;
  options.seed = seed;
  options.threads = threads;
  options.capacity = capacity;
  options.lower_bound = lower_bound;
  if (earlier) options.earlier = std::make_shared<const ByName>(*std::move(earlier));
  if (warm) options.warm = int64_column(*warm, "warm");
  return asked;
}

}  // namespace

void bind_options(py::module_& m) {
  py::class_<Asked>(
      m, "PlanOptions",
      "What a planner is asked for, whole; see memplan/plan_options.hpp. `in_python` is the planner that `planner`\n"
      "names, where it is written in Python. A search begins where buffers were: `earlier` has offsets by name, for\n"
      "graphs, and `warm` one per buffer, for problems, -1 for one that is new. `tell` is called with each better\n"
      "plan, and `on_order` with each OrderProgress. Interruptible, Ctrl-C ends a search with what was found, on the\n"
      "main thread.")
      .def(py::init(&asked_for), py::arg("planner") = "auto", py::arg("in_python") = py::none(),
           py::arg("time_limit") = py::none(), py::arg("seed") = 0, py::arg("threads") = 1,
           py::arg("capacity") = py::none(), py::arg("lower_bound") = 0, py::arg("earlier") = py::none(),
           py::arg("warm") = py::none(), py::arg("tell") = py::none(), py::arg("on_order") = py::none(),
           py::arg("interruptible") = false);
}

}  // namespace memplan::bindings
