// A runtime of CUDA without a GPU, as a shared library: memory is the CPU's, and a stream is done with its work when
// the test says so.
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>

namespace {

std::mutex lock;
std::map<void*, std::size_t> memory;
std::map<void*, std::size_t> tickets;  // by event: the work that it waits for
std::size_t held = 0, limit = SIZE_MAX, queued = 0, done = 0, events = 0;
int device = 0, capturing = 0, broken = 0;

}  // namespace

extern "C" {

int cudaMalloc(void** pointer, std::size_t bytes) {
  const std::lock_guard guard(lock);
  if (bytes > limit - (held < limit ? held : limit)) return 2;
  *pointer = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  held += memory[*pointer] = bytes;
  return 0;
}

int cudaFree(void* pointer) {
  const std::lock_guard guard(lock);
  const auto found = memory.find(pointer);
  if (found == memory.end()) return 1;
  done = queued;
  held -= found->second;
  memory.erase(found);
  std::free(pointer);
  return 0;
}

int cudaGetDevice(int* now) { return *now = device, 0; }
int cudaSetDevice(int next) { return device = next, 0; }
int cudaDeviceSynchronize() { return done = queued, broken; }
int cudaEventCreateWithFlags(void** event, unsigned) { return *event = reinterpret_cast<void*>(++events), broken; }
int cudaEventDestroy(void*) { return 0; }
int cudaEventRecord(void* event, void*) { return tickets[event] = ++queued, 0; }
int cudaEventQuery(void* event) { return tickets[event] <= done ? 0 : 600; }
int cudaEventSynchronize(void*) { return done = queued, 0; }
int cudaStreamWaitEvent(void*, void*, unsigned) { return 0; }
int cudaStreamIsCapturing(void*, int* status) { return *status = capturing, 0; }
int cudaGetLastError() { return 0; }
const char* cudaGetErrorString(int) { return "an error"; }

// What tests do with it.

std::size_t stub_held() { return held; }
void stub_limit(std::size_t bytes) { limit = bytes; }
void stub_finish() { done = queued; }
void stub_capture(int is) { capturing = is; }
void stub_break(int is) { broken = is; }
}
