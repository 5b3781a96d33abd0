#include "bindings.hpp"
#include "memplan/errors.hpp"

namespace memplan::bindings {

namespace {

template <class Error>
void bind_error(py::module_& m, const char* name, const char* doc) {
  py::exception<Error>& type = py::register_exception<Error>(m, name, PyExc_ValueError);
  type.attr("__doc__") = doc;
}

}  // namespace

void bind_errors(py::module_& m) {
  bind_error<GraphError>(m, "GraphError", "A graph that cannot be; the message names op and tensor.");
  bind_error<ProblemError>(m, "ProblemError", "Buffers that cannot be; the message names column and row.");
  bind_error<UnsupportedError>(m, "UnsupportedError", "A feature that a planner or a stage does not support.");
  bind_error<InvalidPlanError>(m, "InvalidPlanError", "A plan that breaks its problem or graph; lists how.");
}

}  // namespace memplan::bindings
