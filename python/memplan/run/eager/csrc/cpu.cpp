// torch's CPU allocator while a step is recorded, or served from an arena. Built at first use, with torch's headers.
#include <c10/core/CPUAllocator.h>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "exports.hpp"

namespace memplan::run {
namespace {

c10::Allocator* general = nullptr;  // torch's own, which has all that an arena does not serve

void free_any(void* pointer) {
  if (pointer == nullptr) return;
  const Given given = session().give(pointer);
  if (given.in_arena) {
    c10::profiledCPUMemoryReporter().Delete(pointer);
  } else {
    const auto deleter = given.tag != 0 ? reinterpret_cast<c10::DeleterFnPtr>(given.tag) : general->raw_deleter();
    deleter(pointer);
  }
}

// One for all arenas, and for ever: tensors keep a pointer to it.
class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    held().before(size);
    if (void* pointer = session().take(size)) {
      c10::profiledCPUMemoryReporter().New(pointer, size);
      return {pointer, pointer, &free_any, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DataPtr made = general->allocate(size);
    void* const pointer = made.get();
    if (size == 0 || pointer == nullptr || made.get_context() != pointer) return made;
    if (!session().born(pointer, size, reinterpret_cast<std::uint64_t>(made.get_deleter()))) return made;
    made.release_context();
    return {pointer, pointer, &free_any, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }

  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
};

CpuAllocator& allocator() {
  static CpuAllocator& only = *new CpuAllocator;
  return only;
}

#if !defined(_WIN32)
// A child of fork has only one thread: the lock may not be another's.
const int at_fork = pthread_atfork([] { session().lock().lock(); }, [] { session().lock().unlock(); },
                                   [] { session().lock().unlock(); });
#endif

}  // namespace

void* take_arena(std::size_t bytes) {
#if defined(__GLIBC__)
  malloc_trim(0);  // what the recorded step has left: later steps do not need it
#endif
  return c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
}

void give_arena(void* memory, std::size_t) { c10::GetDefaultCPUAllocator()->raw_deallocate(memory); }

}  // namespace memplan::run

// Put the allocator in the place of torch's; 0 if another one with a higher priority stays there.
MEMPLAN_EXPORT int memplan_install() {
  using namespace memplan::run;
  c10::Allocator* const before = c10::GetCPUAllocator();
  if (before != &allocator()) general = before;
  c10::SetCPUAllocator(&allocator());
  return c10::GetCPUAllocator() == &allocator() ? 1 : 0;
}

// Put back the allocator that was there before, unless somebody has put another one there since.
MEMPLAN_EXPORT void memplan_uninstall() {
  using namespace memplan::run;
  if (c10::GetCPUAllocator() == &allocator()) c10::SetCPUAllocator(general);
}
