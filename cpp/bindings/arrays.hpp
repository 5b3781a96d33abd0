// Arrays: columns of numbers between Python and the core. Neither side ever reads memory that the other may write: what
// comes is copied, and so is what goes.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.hpp"

namespace memplan::bindings {

// Throws ProblemError: `name` must `expected`, got `got`.
[[noreturn]] void refuse(const char* name, const std::string& expected, const std::string& got);

// Any array, or sequence, as an array.
py::array array_of(py::handle source, const char* name);

// A copy of a one-dimensional column of integers, from any array or sequence: who gave it may change it while the core
// works without the GIL. Throws ProblemError that names the column when it holds anything else.
std::vector<std::int64_t> int64_column(py::handle source, const char* name);

using Rows = std::vector<std::int64_t>;

// The rows of a table of integers with so many columns, one after another; empty for None.
Rows rows_of(py::handle source, const char* name, py::ssize_t columns);

// A read-only numpy array that takes a vector over. Nothing lets it be made writeable.
template <class T>
py::array_t<T> adopt(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  const py::capsule owner(kept, [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  py::array_t<T> array(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

// What `make` gives for an attribute of `owner`, made once and kept as long as `owner` lives.
py::object kept_for(py::handle owner, const char* name, const std::function<py::object()>& make);

// A column of a bound object, as a copy that is made once: what writes to it by force changes nothing in the core.
template <class Owner, class Column>
auto column_property(const char* name, Column column) {
  using T = typename std::decay_t<std::invoke_result_t<Column, const Owner&>>::value_type;
  return [=](const py::object& self) {
    const auto copy = [&]() -> py::object {
      const auto& values = std::invoke(column, self.cast<const Owner&>());
      return adopt(std::vector<T>(values.begin(), values.end()));
    };
    return py::reinterpret_borrow<py::array_t<T>>(kept_for(self, name, copy));
  };
}

}  // namespace memplan::bindings
