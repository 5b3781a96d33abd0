#include "arrays.hpp"

#include <map>
#include <string_view>
#include <unordered_map>

#include "memplan/errors.hpp"
#include "memplan/units.hpp"

namespace memplan::bindings {

namespace {

using Contiguous = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

std::string dtype_name(const py::array& array) { return py::str(array.dtype()).cast<std::string>(); }

void check_fits_int64(const py::array& array, const char* name) {
  if (array.size() == 0 || array.dtype().kind() != 'u' || array.itemsize() < 8) return;
  const py::object highest = array.attr("max")();
  if (highest.attr("item")() > py::int_(kMaxBytes)) refuse(name, "fit int64", py::str(highest).cast<std::string>());
}

}  // namespace

void refuse(const char* name, const std::string& expected, const std::string& got) {
  throw ProblemError(std::string(name) + " must " + expected + ", got " + got);
}

py::array array_of(py::handle source, const char* name) {
  py::array array = py::array::ensure(source);
  if (array) return array;
  PyErr_Clear();
  refuse(name, "be a sequence of integers", py::str(py::type::handle_of(source)).cast<std::string>());
}

std::vector<std::int64_t> int64_column(py::handle source, const char* name) {
  const py::array array = array_of(source, name);
  if (array.ndim() != 1) refuse(name, "have one dimension", std::to_string(array.ndim()));
  const char kind = array.dtype().kind();
  if (array.size() > 0 && kind != 'i' && kind != 'u') refuse(name, "hold integers that fit int64", dtype_name(array));
  check_fits_int64(array, name);
  const Contiguous column = Contiguous::ensure(array);
  return {column.data(), column.data() + column.size()};
}

py::object kept_for(py::handle owner, const char* name, const std::function<py::object()>& make) {
  using Kept = std::map<std::string_view, py::object>;
  static auto& all = *new std::unordered_map<PyObject*, Kept>();  // never ends: the interpreter does before statics
  const auto [entry, is_new] = all.try_emplace(owner.ptr());
  if (is_new)
    py::weakref(owner, py::cpp_function([key = owner.ptr()](py::handle reference) {
                  all.erase(key);
                  reference.dec_ref();
                }))
        .release();
  Kept& kept = entry->second;
  if (const auto known = kept.find(name); known != kept.end()) return known->second;
  return kept[name] = make();
}

Rows rows_of(py::handle source, const char* name, py::ssize_t columns) {
  if (source.is_none()) return {};
  const py::array array = array_of(source, name);
  if (array.size() == 0) return {};
  if (array.ndim() != 2 || array.shape(1) != columns)
    refuse(name, "have " + std::to_string(columns) + " columns", py::str(array.attr("shape")).cast<std::string>());
  return int64_column(array.attr("reshape")(-1), name);
}

}  // namespace memplan::bindings
