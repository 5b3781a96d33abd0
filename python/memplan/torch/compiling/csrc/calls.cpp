// Calls of kernels in compiled code: what a kernel may allocate is offered to it, and its results own the arenas that
// they lie in. In C++, for a small network makes many calls, and each would cost several microseconds in Python.
//
//   run = Kernel(name, arenas, results, scratch).run     where results belong, and what is free: see serving.py
//   result = run(tensor, scale, ..., kernel, ...)        the arenas, each with what places and bytes in it are times; the
//                                                        kernel itself, and what it is called with
//
// A result that was made in its place shares the arena from then on, which is freed with the last that does. The first
// call shows which of the kernel's allocations its results are, where others have their sizes. A result that was made
// elsewhere among the offered bytes, as if it were scratch, is copied.
//
// Built at first use, with torch's headers. The allocator is another library: `connect` gets its functions.
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "offers.hpp"

namespace {

namespace py = pybind11;
using Number = std::int64_t;

using memplan::run::Closed, memplan::run::kAnyNumber;

// Of the allocator, as `memplan_open` and so on.
struct Allocator {
  int (*open)(const Number* row, const Number* arenas);
  Closed (*close)();
  int (*offers)(Number address);
  Number (*number_of)(Number address);
};

Allocator allocator;
py::handle tensor_type, keeps_memory;  // of Python: what results are, and what is raised; never freed

struct Result {
  std::optional<std::size_t> at;  // in what the kernel returns; none if it is that
  Number arena, place;            // the arena is negative if it lies outside of all
};

using Results = std::vector<std::tuple<std::vector<std::size_t>, Number, Number, Number>>;
using Ranges = std::vector<std::tuple<Number, Number, Number>>;

class Kernel {
 public:
  Kernel(std::string name, std::size_t arenas, const Results& results, const Ranges& scratch,
         const std::vector<Number>& numbers)
      : name_(std::move(name)), arenas_(arenas), learns_(numbers.empty()) {
    row_ = {static_cast<Number>(results.size()), static_cast<Number>(scratch.size())};
    for (const auto& [path, arena, place, bytes] : results) {
      const Number number = learns_ ? kAnyNumber : numbers.at(results_.size());
      results_.push_back({path.empty() ? std::nullopt : std::optional(path.front()), arena, place});
      row_.insert(row_.end(), {arena, place, bytes, number});
    }
    for (const auto& [arena, place, bytes] : scratch) row_.insert(row_.end(), {arena, place, bytes});
  }

  const std::string& name() const { return name_; }
  std::size_t arenas() const { return arenas_; }
  const std::vector<Result>& results() const { return results_; }
  const Number* row() const { return row_.data(); }
  bool returns_one() const { return results_.size() == 1 && !results_.front().at; }

  // Bytes that came from elsewhere in the last call, at most at one time.
  Number elsewhere() const { return elsewhere_; }
  void set_elsewhere(Number bytes) { elsewhere_ = bytes; }

  // Whether this is asked for the first time.
  bool learns() { return std::exchange(learns_, false); }

  // Which of the kernel's allocations each result is.
  Number& number(std::size_t result) { return row_[2 + 4 * result + 3]; }

  std::vector<Number> numbers() {
    std::vector<Number> found;
    for (std::size_t result = 0; result < results_.size(); ++result) found.push_back(number(result));
    return found;
  }

 private:
  std::string name_;
  std::size_t arenas_;
  std::vector<Result> results_;
  std::vector<Number> row_;  // as memplan_offer takes it
  bool learns_;
  Number elsewhere_ = 0;
};

const c10::TensorImpl& tensor_of(py::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("_cdata");
  const auto address = py::reinterpret_steal<py::object>(PyObject_GetAttr(tensor.ptr(), name));
  if (!address) throw py::error_already_set();
  return *static_cast<const c10::TensorImpl*>(PyLong_AsVoidPtr(address.ptr()));
}

Number address_of(const c10::TensorImpl& tensor) {
  return tensor.has_storage() ? reinterpret_cast<Number>(tensor.unsafe_storage().data()) : 0;
}

// One call, on the thread that makes it. If another allocator stays in torch's place, nothing is offered.
class Call {
 public:
  // The arenas, each followed by its scale.
  Call(Kernel& kernel, PyObject* const* arenas) : kernel_(kernel) {
    for (std::size_t at = 0; at < 2 * kernel.arenas(); at += 2) {
      const c10::TensorImpl& tensor = tensor_of(arenas[at]);
      storages_.push_back(tensor.storage());
      places_.push_back(reinterpret_cast<Number>(tensor.data()));
      places_.push_back(py::handle(arenas[at + 1]).cast<Number>());
    }
    is_open_ = allocator.open(kernel_.row(), places_.data()) != 0;
  }

  ~Call() { close(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // What the kernel has returned, which owns the arenas that it lies in.
  py::object ended(py::object result) {
    if (!is_open_) return result;
    std::vector<py::object> made;
    if (kernel_.returns_one()) {
      made.push_back(result);
    } else if (!kernel_.results().empty()) {
      for (const py::handle each : result) made.push_back(py::reinterpret_borrow<py::object>(each));
    }
    std::vector<const c10::TensorImpl*> tensors;
    for (const py::object& each : made)
      tensors.push_back(py::isinstance(each, tensor_type) ? &tensor_of(each) : nullptr);
    if (kernel_.learns()) learn(tensors);
    std::vector<std::size_t> lost;
    for (std::size_t at = 0; at < made.size(); ++at)
      if (tensors[at] != nullptr && !is_kept(tensors, at)) lost.push_back(at);
    const Number kept = close();
    if (lost.empty()) {
      if (kept > 0) refuse();
      return result;
    }
    for (const std::size_t at : lost) made[at] = made[at].attr("clone")();
    return kernel_.returns_one() ? made.front() : py::cast(made);
  }

 private:
  // How many allocations of what was offered are held still.
  Number close() {
    if (!std::exchange(is_open_, false)) return 0;
    const Closed closed = allocator.close();
    kernel_.set_elsewhere(closed.elsewhere);
    return closed.kept;
  }

  Number address_in(const Result& result) const {
    const auto arena = 2 * static_cast<std::size_t>(result.arena);
    return places_[arena] + result.place * places_[arena + 1];
  }

  bool is_in_place(const Result& result, Number address) const {
    return result.arena >= 0 && address == address_in(result);
  }

  // Which allocations the results are, unless all of them have their places.
  void learn(const std::vector<const c10::TensorImpl*>& made) {
    const std::vector<Result>& results = kernel_.results();
    std::vector<Number> addresses;
    bool all = true;
    for (const Result& it : results) {
      const c10::TensorImpl* const tensor = made.at(it.at.value_or(0));
      addresses.push_back(tensor == nullptr ? 0 : address_of(*tensor));
      all = all && (it.arena < 0 || is_in_place(it, addresses.back()));
    }
    for (std::size_t at = 0; at < results.size() && !all; ++at) kernel_.number(at) = allocator.number_of(addresses[at]);
  }

  // Whether a tensor that was returned keeps its bytes: in its place, from now on, and where nothing was offered.
  bool is_kept(const std::vector<const c10::TensorImpl*>& made, std::size_t at) const {
    const c10::TensorImpl& tensor = *made[at];
    const Number address = address_of(tensor);
    for (const Result& it : kernel_.results()) {
      if (it.at.value_or(0) != at || !is_in_place(it, address)) continue;
      const c10::Storage &storage = tensor.unsafe_storage(), &arena = storages_[static_cast<std::size_t>(it.arena)];
      if (storage.is_alias_of(arena)) return true;
      const auto here = std::count_if(made.begin(), made.end(), [&](const c10::TensorImpl* each) {
        return each != nullptr && each->has_storage() && each->unsafe_storage().is_alias_of(storage);
      });
      if (storage.use_count() > static_cast<std::size_t>(here)) refuse();
      storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
          {storage.mutable_data(), new c10::Storage(arena), &leave, storage.device()});
      return true;
    }
    return allocator.offers(address) == 0;
  }

  [[noreturn]] void refuse() const {
    const char* const text =
        " keeps memory past its call, so it cannot be served; compile with options={'serve': False}";
    PyErr_SetString(keeps_memory.ptr(), (kernel_.name() + text).c_str());
    throw py::error_already_set();
  }

  static void leave(void* arena) { delete static_cast<c10::Storage*>(arena); }

  Kernel& kernel_;
  std::vector<c10::Storage> storages_;
  std::vector<Number> places_;  // of each arena its address, and what is times what in it
  bool is_open_ = false;
};

// Call a kernel: `given` has the arenas, the kernel, and what it is called with, in the end by names.
PyObject* run(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  try {
    Kernel& kernel = *static_cast<Kernel*>(PyCapsule_GetPointer(self, nullptr));
    const auto at = static_cast<Py_ssize_t>(2 * kernel.arenas());
    if (count <= at) throw py::type_error(kernel.name() + ": expected arenas with scales, and a kernel");
    Call call(kernel, given);
    PyObject* const result =
        PyObject_Vectorcall(given[at], given + at + 1, static_cast<std::size_t>(count - at - 1), names);
    if (result == nullptr) return nullptr;
    return call.ended(py::reinterpret_steal<py::object>(result)).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// `run` for a kernel, as a plain function of Python: nothing costs less to call.
py::object function_of(Kernel& kernel, py::handle owner) {
  static PyMethodDef method = {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&run)),
                               METH_FASTCALL | METH_KEYWORDS, nullptr};
  const auto leave = [](PyObject* capsule) { Py_DECREF(static_cast<PyObject*>(PyCapsule_GetContext(capsule))); };
  const auto capsule = py::reinterpret_steal<py::object>(PyCapsule_New(&kernel, nullptr, leave));
  if (!capsule || PyCapsule_SetContext(capsule.ptr(), owner.inc_ref().ptr()) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(PyCFunction_New(&method, capsule.ptr()));
}

template <typename Function>
void set(Function*& function, std::uintptr_t address) {
  function = reinterpret_cast<Function*>(address);
}

}  // namespace

PYBIND11_MODULE(memplan_calls, module) {
  module.def("connect", [](std::uintptr_t open, std::uintptr_t close, std::uintptr_t offers, std::uintptr_t number_of,
                           const py::object& tensor, const py::object& error) {
    set(allocator.open, open);
    set(allocator.close, close);
    set(allocator.offers, offers);
    set(allocator.number_of, number_of);
    tensor_type = tensor.inc_ref();
    keeps_memory = error.inc_ref();
  });
  py::class_<Kernel>(module, "Kernel")
      .def(py::init<std::string, std::size_t, Results, Ranges, std::vector<Number>>())
      .def_property_readonly("run", [](const py::object& self) { return function_of(self.cast<Kernel&>(), self); })
      .def_property_readonly("numbers", &Kernel::numbers)
      .def_property_readonly("elsewhere", &Kernel::elsewhere);
}
