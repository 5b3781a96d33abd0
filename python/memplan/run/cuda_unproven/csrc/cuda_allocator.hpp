// What torch asks of an allocator of CUDA: steps are recorded, and served from arenas, and all else is served by a
// cache.
//
// Only allocations of one stream are recorded and served: the one that the steps began in. In an arena, the bytes of
// one tensor become another's in program order, which is the order of a stream.
#pragma once

#include <vector>

#include "cuda_memory.hpp"
#include "session.hpp"

namespace memplan::run {

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CudaAllocator {
 public:
  CudaAllocator(Driver driver, Session& session) : memory_(driver), session_(session) {}

  // Before a step: the stream whose allocations it records or serves. What has waited is free for it.
  void serve(DeviceStream stream) {
    memory_.serve(stream);
    recycle_completed();
  }

  // nullptr for no bytes. Throws OutOfMemory, and std::runtime_error for what CUDA refuses.
  void* allocate(std::size_t size, int device, Stream stream) {
    if (size == 0) return nullptr;
    refuse_capture(stream);
    recycle_completed();
    const bool served = memory_.serves({device, stream});
    if (served) {
      if (void* address = session_.take(size)) {
        memory_.took(address, device, stream);
        return address;
      }
    }
    void* const address = general(size, device, stream);
    if (served) session_.born(address, size);
    return address;
  }

  void free(void* address) {
    if (address == nullptr) return;
    recycle_completed();
    if (const auto freed = memory_.release(address)) recycle(*freed);
  }

  // Another stream of the current device uses the memory until it is freed.
  void used(void* address, Stream stream) { memory_.used(address, {current_device(), stream}); }

  // Give all that is free, on all devices, back to CUDA.
  void empty() {
    wait();
    memory_.trim();
  }

  void* take_arena(std::size_t bytes) {
    recycle_completed();
    if (void* made = memory_.take_arena(bytes)) return made;
    wait();
    if (void* made = memory_.take_arena(bytes)) return made;
    throw OutOfMemory("CUDA out of memory");
  }

  CudaMemory& memory() { return memory_; }

 private:
  void* general(std::size_t size, int device, Stream stream) {
    if (void* address = memory_.allocate(size, device, stream)) return address;
    wait();
    if (void* address = memory_.allocate(size, device, stream)) return address;
    const CudaFigures held = memory_.figures(device, false);
    throw OutOfMemory("CUDA out of memory: tried to allocate " + std::to_string(size) + " bytes on device " +
                      std::to_string(device) + "; memplan's allocator holds " + std::to_string(held.reserved) +
                      " bytes, " + std::to_string(held.arenas) + " of them in arenas, and " +
                      std::to_string(held.allocated) + " are in use outside of arenas");
  }

  void wait() {
    memory_.wait();
    recycle_completed();
  }

  void recycle_completed() {
    for (const Freed& freed : memory_.completed()) recycle(freed);
  }

  void recycle(const Freed& freed) {
    session_.give(freed.address);  // before anybody else can have it
    memory_.recycle(freed);
  }

  // A graph runs its work again later, when the memory that it was captured with may be another's.
  void refuse_capture(Stream stream) const {
    const Driver& driver = memory_.driver();
    int status = 0;
    if (driver.StreamIsCapturing(stream, &status) != kSuccess) {
      driver.GetLastError();
      status = 1;
    }
    if (status != 0)
      throw std::runtime_error("memplan's allocator does not serve CUDA graphs: do not install it for them");
  }

  int current_device() const {
    int device = 0;
    memory_.driver().check(memory_.driver().GetDevice(&device), "cudaGetDevice");
    return device;
  }

  CudaMemory memory_;
  Session& session_;
};

}  // namespace memplan::run
