#include "bindings.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"

namespace memplan::bindings {

namespace {

template <class Error>
void bind_error(py::module_& m, const char* name, const char* doc, PyObject* base = PyExc_ValueError) {
  py::exception<Error>& type = py::register_exception<Error>(m, name, base);
  type.attr("__doc__") = doc;
}

// What was found, as the solve would have returned it; None where nothing was.
py::object found_by(const InfeasibleError& error) {
  if (!error.plan) return py::none();
  if (!error.buffers) return py::cast(*error.plan);
  if (error.graph) return py::make_tuple(std::const_pointer_cast<Graph>(error.graph), *error.buffers, *error.plan);
  return py::make_tuple(*error.buffers, *error.plan);
}

py::object clique_of(const InfeasibleError& error) {
  if (!error.clique) return py::none();
  const py::module_ proofs = py::module_::import("memplan.proofs.clique");
  py::list members;
  for (const CliqueMember& member : error.clique->members)
    members.append(proofs.attr("CliqueMember")(member.buffer, member.begin, member.end));
  return proofs.attr("Clique")(error.clique->bytes, py::tuple(members));
}

// Its class is Python's: it says what its attributes are.
void raise_infeasible(const InfeasibleError& error) {
  using namespace py::literals;
  const py::object type = py::module_::import("memplan.plans.failing").attr("InfeasibleError");
  const py::object raised =
      type(error.what(), "capacity"_a = error.capacity, "lower_bound"_a = error.lower_bound, "plan"_a = found_by(error),
           "peak"_a = error.plan ? py::cast(error.plan->peak) : py::none(),
           "buffers"_a = py::tuple(py::cast(error.alive)), "step"_a = error.step, "clique"_a = clique_of(error));
  if (error.buffers) raised.attr("problem") = error.buffers->problem;
  PyErr_SetObject(type.ptr(), raised.ptr());
}

}  // namespace

void bind_errors(py::module_& m) {
  bind_error<GraphError>(m, "GraphError", "A graph that cannot be; the message names op and tensor.");
  bind_error<ProblemError>(m, "ProblemError", "Buffers that cannot be; the message names column and row.");
  bind_error<UnsupportedError>(m, "UnsupportedError", "A feature that a planner or a stage does not support.");
  bind_error<InvalidPlanError>(m, "InvalidPlanError", "A plan that breaks its problem or graph; lists how.");
  bind_error<TimeLimitError>(m, "TimeLimitError",
                             "A planner that does not search did not end within its time limit, and so has no plan.",
                             PyExc_TimeoutError);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const InfeasibleError& error) {
      raise_infeasible(error);
    } catch (const InterruptedError& error) {
      PyErr_SetString(PyExc_KeyboardInterrupt, error.what());
    } catch (const PlannerError& error) {
      PyErr_SetString(py::module_::import("memplan.errors").attr("PlannerError").ptr(), error.what());
    }
  });
}

}  // namespace memplan::bindings
