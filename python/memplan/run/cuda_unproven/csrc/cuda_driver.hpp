// What is asked of CUDA's runtime, found in its shared library when the program runs: nothing here is built with CUDA.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace memplan::run {

using Stream = void*;
using Event = void*;

constexpr int kSuccess = 0, kOutOfMemory = 2, kNotReady = 600;  // of cudaError_t
constexpr unsigned kWithoutTiming = 2;                          // cudaEventDisableTiming

// The functions of libcudart of the same names, without "cuda".
struct Driver {
  int (*Malloc)(void**, std::size_t) = nullptr;
  int (*Free)(void*) = nullptr;
  int (*GetDevice)(int*) = nullptr;
  int (*SetDevice)(int) = nullptr;
  int (*DeviceSynchronize)() = nullptr;
  int (*EventCreateWithFlags)(Event*, unsigned) = nullptr;
  int (*EventDestroy)(Event) = nullptr;
  int (*EventRecord)(Event, Stream) = nullptr;
  int (*EventQuery)(Event) = nullptr;
  int (*EventSynchronize)(Event) = nullptr;
  int (*StreamWaitEvent)(Stream, Event, unsigned) = nullptr;
  int (*StreamIsCapturing)(Stream, int*) = nullptr;
  int (*GetLastError)() = nullptr;
  const char* (*GetErrorString)(int) = nullptr;

  // Throws std::runtime_error if there is no such library, or it lacks a function.
  static Driver load(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    Driver found;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) throw std::runtime_error(std::string(path) + " has no function " + name);
    };
    find(found.Malloc, "cudaMalloc");
    find(found.Free, "cudaFree");
    find(found.GetDevice, "cudaGetDevice");
    find(found.SetDevice, "cudaSetDevice");
    find(found.DeviceSynchronize, "cudaDeviceSynchronize");
    find(found.EventCreateWithFlags, "cudaEventCreateWithFlags");
    find(found.EventDestroy, "cudaEventDestroy");
    find(found.EventRecord, "cudaEventRecord");
    find(found.EventQuery, "cudaEventQuery");
    find(found.EventSynchronize, "cudaEventSynchronize");
    find(found.StreamWaitEvent, "cudaStreamWaitEvent");
    find(found.StreamIsCapturing, "cudaStreamIsCapturing");
    find(found.GetLastError, "cudaGetLastError");
    find(found.GetErrorString, "cudaGetErrorString");
    return found;
  }

  void check(int error, const char* what) const {
    if (error == kSuccess) return;
    GetLastError();  // it is said here, and not once more by the next call
    throw std::runtime_error(std::string(what) + ": " + GetErrorString(error));
  }
};

// The device on which CUDA works for this thread, while this lives. If that cannot be, what follows fails.
class OnDevice {
 public:
  OnDevice(const Driver& driver, int device) : driver_(driver) {
    if (driver_.GetDevice(&before_) != kSuccess) driver_.GetLastError();
    if (before_ == device) return;
    changed_ = driver_.SetDevice(device) == kSuccess;
    if (!changed_) driver_.GetLastError();
  }
  ~OnDevice() {
    if (changed_) driver_.SetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const Driver& driver_;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace memplan::run
