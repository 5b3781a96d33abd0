// Watch: Python's side of a search that runs without the interpreter's lock.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "bindings.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/planner.hpp"

namespace memplan::bindings {

// Nothing is thrown through a search: what Python raises in the meantime is kept, ends it, and is raised after it.
// An interrupt, wherever it comes from, ends it too, but is no error: what was found is kept.
class Watch {
 public:
  // `tell` is called with each plan, or is None; signals are looked for where `interruptible`.
  Watch(const py::object& tell, bool interruptible)
      : tell_(tell), interruptible_(interruptible && PyThread_get_thread_ident() == main_thread) {}

  bool listens() const { return !tell_.is_none(); }
  bool can_stop() const { return interruptible_ || listens(); }

  // Called without the lock, as `tell` is.
  bool stop() {
    if (interrupted_ || error_ || !interruptible_) return interrupted_ || error_;
    asked_ = true;
    const auto begin = Clock::now();
    if (begin < next_look_) return false;
    const py::gil_scoped_acquire lock;
    const auto end = Clock::now();
    next_look_ = end + std::min<Clock::duration>(8 * (end - begin), kLongest);
    return look();
  }

  template <class... Found>
  void tell(Found&&... found) {
    call(tell_, std::forward<Found>(found)...);
  }

  // Calls someone else, in the same way.
  template <class... Found>
  void call(const py::object& listener, Found&&... found) {
    if (error_) return;
    const py::gil_scoped_acquire lock;
    try {
      listener(std::forward<Found>(found)...);
    } catch (py::error_already_set& error) {
      keep(std::move(error), false);
    }
  }

  // In a planner written in Python, with the lock: raises what was kept right there, so that the planner ends.
  void raise_in_planner() const {
    if (!error_ && !interrupted_) return;
    if (error_)
      PyErr_SetObject(error_->type().ptr(), error_->value().ptr());
    else
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }

  inline static unsigned long main_thread = 0;  // which alone gets signals; set when the module is imported

  // After the planner, with the lock: raises what was kept. True when a search was interrupted; an interrupt too late
  // for the search to see is one still. Where there was no search, such an interrupt is left to Python, which raises
  // it.
  bool interrupted(bool searched) {
    if (searched && asked_ && !interrupted_ && !error_) look();
    if (error_) throw std::move(*error_);
    return interrupted_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirst{5};     // so that short searches need no lock
  static constexpr std::chrono::milliseconds kLongest{40};  // between looks, where other threads hold the lock for long

  bool look() {
    if (PyErr_CheckSignals() == 0) return false;
    keep(py::error_already_set(), true);
    return true;
  }

  // A second interrupt after a signal is an error: whoever waits does not want to. A callback may ask twice.
  void keep(py::error_already_set error, bool by_signal) {
    if (error.matches(PyExc_KeyboardInterrupt) && !signalled_) {
      interrupted_ = true;
      signalled_ = by_signal;
    } else {
      error_.emplace(std::move(error));
    }
  }

  const py::object& tell_;
  bool interruptible_;
  Clock::time_point next_look_ = Clock::now() + kFirst;
  bool asked_ = false;
  bool interrupted_ = false;
  bool signalled_ = false;
  std::optional<py::error_already_set> error_;
};

// What search(), which may be long, finds without the lock, and whether it was interrupted. Whoever interrupts it before
// there is a plan gets none.
template <class Search>
auto searched(Watch& watch, Search&& search) {
  try {
    auto found = [&] {
      const py::gil_scoped_release release;
      return search();
    }();
    const bool interrupted = watch.interrupted(true);  // and not where only the time was over
    return std::pair(std::move(found), interrupted);
  } catch (const InfeasibleError& error) {
    if (watch.interrupted(true) && !error.proven()) throw InterruptedError("asked to end");
    throw;
  } catch (const EndedError&) {
    watch.interrupted(false);  // raises what a handler of signals has raised
    throw;
  }
}

// work(options), which may be long, without the lock. Ctrl-C ends it, through `stop` of the options, and is raised.
template <class Work>
auto interruptibly(Work&& work) {
  const py::none nobody;
  Watch watch(nobody, true);
  PlanOptions options;
  if (watch.can_stop()) options.stop = [&] { return watch.stop(); };
  try {
    auto found = [&] {
      const py::gil_scoped_release release;
      return work(options);
    }();
    if (watch.interrupted(false)) throw InterruptedError("asked to end");
    return found;
  } catch (const EndedError&) {
    watch.interrupted(false);  // raises what a handler of signals has raised
    throw;
  }
}

}  // namespace memplan::bindings
