// An allocator for torch.cuda.memory.CUDAPluggableAllocator: steps are recorded, and served from arenas; all else is
// served by a cache. Built at first use with torch's headers for the CPU, and without CUDA.
#include <c10/util/Exception.h>

#include "cuda_memory.hpp"
#include "exports.hpp"

namespace memplan::run {
namespace {

CudaMemory* memory = nullptr;  // made once and never destroyed: tensors are freed after all else

void recycle(const Freed& freed) {
  session().give(freed.address);  // before anybody else can have it
  memory->recycle(freed);
}

void recycle_completed() {
  for (const Freed& freed : memory->completed()) recycle(freed);
}

// A graph runs its work again later, when the memory it was captured with may be another's.
void refuse_capture(Stream stream) {
  int status = 0;
  const int error = memory->driver().StreamIsCapturing(stream, &status);
  if (error != kSuccess) memory->driver().GetLastError();
  if (error == kSuccess && status == 0) return;
  throw std::runtime_error(
      "memplan's allocator does not serve CUDA graphs: capture without memplan.run.install_cuda()");
}

void* allocate(std::size_t size, int device, Stream stream) {
  if (void* address = memory->allocate(size, device, stream)) return address;
  memory->wait();
  recycle_completed();
  memory->trim(device);
  if (void* address = memory->allocate(size, device, stream)) return address;
  const CudaFigures figures = memory->figures(device, false);
  C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory. Tried to allocate " + std::to_string(size) +
                                        " bytes on device " + std::to_string(device) + "; memplan's allocator holds " +
                                        std::to_string(figures.reserved) + " bytes, " + std::to_string(figures.arenas) +
                                        " of them in arenas, and " + std::to_string(figures.allocated) + " in blocks");
}

}  // namespace

void* take_arena(std::size_t bytes) {
  recycle_completed();
  if (void* made = memory->take_arena(bytes)) return made;
  memory->wait();
  recycle_completed();
  if (void* made = memory->take_arena(bytes)) return made;
  throw std::runtime_error("CUDA out of memory");
}

void give_arena(void* address, std::size_t bytes) { memory->give_arena(address, bytes); }

}  // namespace memplan::run

// What torch calls. The size is at least 1: torch asks for nothing otherwise, and gets nothing.
MEMPLAN_EXPORT void* memplan_cuda_alloc(std::size_t size, int device, void* stream) {
  using namespace memplan::run;
  if (size == 0) return nullptr;
  refuse_capture(stream);
  recycle_completed();
  const bool served = memory->serves({device, stream});
  if (served) {
    if (void* address = session().take(size)) {
      memory->took(address, device, stream);
      return address;
    }
  }
  void* const address = allocate(size, device, stream);
  if (served) session().born(address, size);
  return address;
}

MEMPLAN_EXPORT void memplan_cuda_free(void* address, std::size_t, int, void*) {
  using namespace memplan::run;
  if (address == nullptr) return;
  recycle_completed();
  if (const auto freed = memory->release(address)) recycle(*freed);
}

MEMPLAN_EXPORT void memplan_cuda_record_stream(void* address, void* stream) {
  using namespace memplan::run;
  int device = 0;
  memory->driver().check(memory->driver().GetDevice(&device), "cudaGetDevice");
  memory->used(address, {device, stream});
}

// torch.cuda.empty_cache()
MEMPLAN_EXPORT void memplan_cuda_empty() {
  using namespace memplan::run;
  memory->wait();
  recycle_completed();
  int device = 0;
  memory->driver().check(memory->driver().GetDevice(&device), "cudaGetDevice");
  memory->trim(device);
}

// What Python calls

// Use the CUDA runtime in this shared library; 0, and memplan_error, if it is none.
MEMPLAN_EXPORT int memplan_cuda_driver(const char* path) {
  using namespace memplan::run;
  try {
    if (memory == nullptr) memory = new CudaMemory(Driver::load(path));
    return 1;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return 0;
  }
}

// The stream whose allocations are recorded and served; 0, and memplan_error, if CUDA fails.
MEMPLAN_EXPORT int memplan_cuda_serve(std::int64_t device, void* stream) {
  using namespace memplan::run;
  try {
    memory->serve({static_cast<int>(device), stream});
    return 1;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return 0;
  }
}

// The figures of a device, in the order in which Python names them.
MEMPLAN_EXPORT void memplan_cuda_figures(std::int64_t device, int reset, std::int64_t* out) {
  using namespace memplan::run;
  const CudaFigures figures = memory->figures(static_cast<int>(device), reset != 0);
  const std::int64_t all[] = {
      figures.reserved,       figures.reserved_peak, figures.allocated,
      figures.allocated_peak, figures.arenas,        figures.taken,
      figures.given_back,     figures.reused,        static_cast<std::int64_t>(memory->waits())};
  std::copy(std::begin(all), std::end(all), out);
}

// Ready to record and serve; torch asks this allocator from its beginning on.
MEMPLAN_EXPORT int memplan_install() { return memplan::run::memory != nullptr ? 1 : 0; }
MEMPLAN_EXPORT void memplan_uninstall() {}
