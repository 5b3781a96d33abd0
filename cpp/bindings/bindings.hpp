// The binding's parts, one function per concept; module.cpp calls them in order. Conversion only: whatever
// decides anything is in the core.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <string>

namespace memplan::bindings {

namespace py = pybind11;

void bind_caching(py::module_& m);
void bind_errors(py::module_& m);
void bind_fit(py::module_& m);
void bind_split(py::module_& m);
void bind_graph(py::module_& m);
void bind_keep(py::module_& m);
void bind_methods(py::module_& m);
void bind_options(py::module_& m);
void bind_pools(py::module_& m);
void bind_order_bound(py::module_& m);
void bind_problem(py::module_& m);
void bind_planners(py::module_& m);
void bind_pricing(py::module_& m);
void bind_ranges(py::module_& m);
void bind_refute(py::module_& m);
void bind_solve(py::module_& m);
void bind_verify(py::module_& m);

// == by value; anything of another type is unequal.
template <class T>
bool equal(const T& self, const py::object& other) {
  return py::isinstance<T>(other) && self == other.cast<const T&>();
}

// __reduce__: an object is pickled as a call of its class with what `args` gives.
template <class T, class Args>
auto made_again_by(Args args) {
  return [args](const py::object& self) -> py::tuple {
    return py::make_tuple(py::type::of(self), args(self.cast<const T&>()));
  };
}

// What a notebook shows of an object is made by a function of memplan.draw.notebook.
inline auto shown_by(const char* function) {
  return [function](const py::object& self) {
    return py::module_::import("memplan.draw.notebook").attr(function)(self).cast<std::string>();
  };
}

}  // namespace memplan::bindings
