// The memory of GPUs, safe across streams and threads: blocks of the cache, and what lies in arenas.
//
// What is freed is given out again in program order, in the stream that it was allocated in. Two things break that
// order, and are kept back until the streams have come past the point of the free:
//   - other streams that have used the memory, which the program says by record_stream;
//   - for memory in an arena, the stream it was allocated in, if the arena now serves another one.
#pragma once

#include <mutex>
#include <optional>

#include "cuda_cache.hpp"
#include "cuda_events.hpp"

namespace memplan::run {

struct Freed {
  void* address;
  bool in_arena;
};

class CudaMemory {
 public:
  explicit CudaMemory(Driver driver) : driver_(driver), cache_(driver_), waiting_(driver_) {}

  // The stream whose allocations steps record and serve. What an arena of the device has served before comes first.
  void serve(DeviceStream stream) {
    const std::lock_guard guard(lock_);
    const auto [found, is_new] = served_.emplace(stream);
    if (found->second != stream.second) follow(found->second, stream);
    found->second = stream.second;
    device_ = stream.first;
  }

  bool serves(const DeviceStream& stream) {
    const std::lock_guard guard(lock_);
    return stream.first == device_ && is_served(stream);
  }

  // A block; nullptr if there is no memory.
  void* allocate(std::size_t size, int device, Stream stream) {
    const std::lock_guard guard(lock_);
    const Block* const block = cache_.allocate(size, device, stream);
    if (block == nullptr) return nullptr;
    owners_[block->address] = {{device, stream}, {}, false};
    return block->address;
  }

  // An arena has given this address out.
  void took(void* address, int device, Stream stream) {
    const std::lock_guard guard(lock_);
    owners_[address] = {{device, stream}, {}, true};
  }

  // Another stream uses the memory, from now until it is freed.
  void used(void* address, DeviceStream stream) {
    const std::lock_guard guard(lock_);
    const auto found = owners_.find(address);
    if (found != owners_.end() && found->second.stream != stream) found->second.uses.insert(stream);
  }

  // The program frees the memory. If it can be another's now, the caller is to `recycle` it.
  std::optional<Freed> release(void* address) {
    const std::lock_guard guard(lock_);
    auto owner = owners_.extract(address);
    if (owner.empty()) return {};
    Owner& was = owner.mapped();
    if (was.in_arena && !is_served(was.stream)) was.uses.insert(was.stream);
    const Freed freed{address, was.in_arena};
    if (was.uses.empty()) return freed;
    waiting_.add(freed, was.uses);
    return {};
  }

  // What has waited and can be another's now: the caller is to `recycle` it.
  std::vector<Freed> completed() {
    const std::lock_guard guard(lock_);
    return waiting_.count() == 0 ? std::vector<Freed>{} : waiting_.completed();
  }

  // The last word on a block. An arena looks after what lies in it.
  void recycle(const Freed& freed) {
    const std::lock_guard guard(lock_);
    if (!freed.in_arena) cache_.free(cache_.at(freed.address));
  }

  // Blocks until nothing has to wait any longer.
  void wait() {
    const std::lock_guard guard(lock_);
    waiting_.wait();
  }

  void trim() {
    const std::lock_guard guard(lock_);
    cache_.trim();
  }

  // Memory on the device that is served; nullptr if there is none.
  void* take_arena(std::size_t bytes) {
    const std::lock_guard guard(lock_);
    cache_.trim(device_);  // what is kept for later would come on top
    void* const memory = cache_.take(bytes, device_);
    if (memory != nullptr) arenas_[memory] = device_;
    return memory;
  }

  // cudaFree waits for the device, so nothing works on the arena when its memory goes back.
  void give_arena(void* memory, std::size_t bytes) {
    const std::lock_guard guard(lock_);
    cache_.give(memory, bytes, arenas_.extract(memory).mapped());
  }

  CudaFigures figures(int device, bool reset) {
    const std::lock_guard guard(lock_);
    CudaFigures& now = cache_.figures(device);
    if (reset) now.reserved_peak = now.reserved, now.allocated_peak = now.allocated;
    return now;
  }

  std::size_t waits() {
    const std::lock_guard guard(lock_);
    return waiting_.count();
  }

  const Driver& driver() const { return driver_; }

 private:
  struct Owner {
    DeviceStream stream;
    std::set<DeviceStream> uses;
    bool in_arena;
  };

  bool is_served(const DeviceStream& stream) const {
    const auto found = served_.find(stream.first);
    return found != served_.end() && found->second == stream.second;
  }

  // The next work of `after` waits for the work that is queued in `before`.
  void follow(Stream before, const DeviceStream& after) {
    const OnDevice on(driver_, after.first);
    Event event = nullptr;
    const bool ordered = driver_.EventCreateWithFlags(&event, kWithoutTiming) == kSuccess &&
                         driver_.EventRecord(event, before) == kSuccess &&
                         driver_.StreamWaitEvent(after.second, event, 0) == kSuccess;
    if (event != nullptr) driver_.EventDestroy(event);
    if (ordered) return;
    driver_.GetLastError();
    driver_.check(driver_.DeviceSynchronize(), "cudaDeviceSynchronize");
  }

  const Driver driver_;
  std::mutex lock_;
  CudaCache cache_;
  Waiting<Freed> waiting_;
  std::unordered_map<void*, Owner> owners_;  // by address, of what the program has
  std::unordered_map<void*, int> arenas_;    // their devices
  std::map<int, Stream> served_;             // by device, the stream that was served last
  int device_ = 0;                           // the one that is served
};

}  // namespace memplan::run
