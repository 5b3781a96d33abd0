// An allocator for torch.cuda.memory.CUDAPluggableAllocator. Built at first use with torch's headers for the CPU, and
// without CUDA.
#include <c10/util/Exception.h>

#include "cuda_allocator.hpp"
#include "exports.hpp"

namespace memplan::run {
namespace {

CudaAllocator* cuda = nullptr;  // made once and never destroyed: tensors are freed after all else

}  // namespace

void* take_arena(std::size_t bytes) { return cuda->take_arena(bytes); }

void give_arena(void* address, std::size_t bytes) { cuda->memory().give_arena(address, bytes); }

}  // namespace memplan::run

// What torch calls

MEMPLAN_EXPORT void* memplan_cuda_alloc(std::size_t size, int device, void* stream) {
  try {
    return memplan::run::cuda->allocate(size, device, stream);
  } catch (const memplan::run::OutOfMemory& error) {
    C10_THROW_ERROR(OutOfMemoryError, error.what());
  }
}

MEMPLAN_EXPORT void memplan_cuda_free(void* address, std::size_t, int, void*) { memplan::run::cuda->free(address); }

MEMPLAN_EXPORT void memplan_cuda_record_stream(void* address, void* stream) {
  memplan::run::cuda->used(address, stream);
}

MEMPLAN_EXPORT void memplan_cuda_empty() { memplan::run::cuda->empty(); }  // torch.cuda.empty_cache()

// What Python calls

// Use the CUDA runtime in this shared library; 0, and memplan_error, if it is none.
MEMPLAN_EXPORT int memplan_cuda_driver(const char* path) {
  using namespace memplan::run;
  try {
    if (cuda == nullptr) cuda = new CudaAllocator(Driver::load(path), session());
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
    cuda->serve({static_cast<int>(device), stream});
    return 1;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return 0;
  }
}

// The figures of a device, in the order in which Python names them.
MEMPLAN_EXPORT void memplan_cuda_figures(std::int64_t device, int reset, std::int64_t* out) {
  using namespace memplan::run;
  const CudaFigures figures = cuda->memory().figures(static_cast<int>(device), reset != 0);
  const std::int64_t all[] = {
      figures.reserved,       figures.reserved_peak, figures.allocated,
      figures.allocated_peak, figures.arenas,        figures.taken,
      figures.given_back,     figures.reused,        static_cast<std::int64_t>(cuda->memory().waits())};
  std::copy(std::begin(all), std::end(all), out);
}

// Ready to record and serve; torch asks this allocator from its beginning on.
MEMPLAN_EXPORT int memplan_install() { return memplan::run::cuda != nullptr ? 1 : 0; }
MEMPLAN_EXPORT void memplan_uninstall() {}
