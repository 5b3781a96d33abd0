// The binding's parts, one function per concept; module.cpp calls them in order. Conversion only: whatever
// decides anything is in the core.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace memplan::bindings {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_graph(py::module_& m);
void bind_problem(py::module_& m);
void bind_planners(py::module_& m);
void bind_refute(py::module_& m);
void bind_solve(py::module_& m);
void bind_verify(py::module_& m);

// A one-dimensional int64 column from any array or sequence of integers, without a copy where it is one
// already. Throws ProblemError that names the column when it holds anything else.
py::array_t<std::int64_t> int64_column(py::handle source, const char* name);

inline std::span<const std::int64_t> span_of(const py::array_t<std::int64_t>& column) {
  return {column.data(), static_cast<std::size_t>(column.size())};
}

// == by value; anything of another type is unequal.
template <class T>
bool equal(const T& self, const py::object& other) {
  return py::isinstance<T>(other) && self == other.cast<const T&>();
}

// What a notebook shows of an object is made by a function of memplan.present.notebook.
inline auto shown_by(const char* function) {
  return [function](const py::object& self) {
    return py::module_::import("memplan.present.notebook").attr(function)(self).cast<std::string>();
  };
}

// A read-only numpy array over memory that `owner` keeps alive.
template <class T>
py::array_t<T> read_only(std::span<const T> values, py::handle owner) {
  py::array_t<T> array(static_cast<py::ssize_t>(values.size()), values.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

// A read-only numpy array that takes a vector over.
template <class T>
py::array_t<T> adopt(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  py::capsule owner(kept, [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  return read_only(std::span<const T>(*kept), owner);
}

}  // namespace memplan::bindings
