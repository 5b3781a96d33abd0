// torch's CPU allocator while a step is recorded, or served from an arena. Built at first use, with torch's headers.
#include <c10/core/CPUAllocator.h>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "exports.hpp"
#include "offers.hpp"
#include "pages.hpp"

namespace memplan::run {
namespace {

c10::Allocator* general = nullptr;  // torch's own, which has all that an arena does not serve
std::mutex installing;
int users = 0;

void free_pages(void* pointer) {
  c10::profiledCPUMemoryReporter().Delete(pointer);
  pages().give(pointer);
}

// What no arena serves: pages of its own if this thread wants some, else torch's.
c10::DataPtr from_elsewhere(std::size_t size) {
  void* const pointer = pages().take(size);
  if (pointer == nullptr) return general->allocate(size);
  c10::profiledCPUMemoryReporter().New(pointer, size);
  return {pointer, pointer, &free_pages, c10::Device(c10::DeviceType::CPU)};
}

c10::DeleterFnPtr deleter_of(void* pointer) { return pages().owns(pointer) ? &free_pages : general->raw_deleter(); }

void free_any(void* pointer) {
  if (pointer == nullptr) return;
  if (offered().give(reinterpret_cast<Address>(pointer))) return;
  const Given given = session().give(pointer);
  if (given.in_arena) {
    c10::profiledCPUMemoryReporter().Delete(pointer);
    return;
  }
  const std::uint64_t tag = given.tag != 0 ? given.tag : offered().give_elsewhere(reinterpret_cast<Address>(pointer));
  const auto deleter = tag != 0 ? reinterpret_cast<c10::DeleterFnPtr>(tag) : deleter_of(pointer);
  deleter(pointer);
}

// One for all arenas, and for ever: tensors keep a pointer to it.
class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    held().before(size);
    if (const Address address = offers().take(static_cast<Bytes>(size))) {
      offered().add(address);  // not said to torch's profiler, which has counted the bytes as the arena's
      void* const pointer = reinterpret_cast<void*>(address);
      return {pointer, pointer, &free_any, c10::Device(c10::DeviceType::CPU)};
    }
    if (void* pointer = session().take(size)) {
      c10::profiledCPUMemoryReporter().New(pointer, size);
      return {pointer, pointer, &free_any, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DataPtr made = from_elsewhere(size);
    void* const pointer = made.get();
    if (size == 0 || pointer == nullptr || made.get_context() != pointer) return made;
    const auto tag = reinterpret_cast<std::uint64_t>(made.get_deleter());
    if (!session().born(pointer, size, tag)) {
      if (!offers().open()) return made;
      offers().missed(reinterpret_cast<Address>(pointer), static_cast<Bytes>(size));
      offered().add_elsewhere(reinterpret_cast<Address>(pointer), static_cast<Bytes>(size), tag);
    }
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
// A child of fork has only one thread: no lock may be another's.
void lock_all() {
  session().lock().lock();
  offered().lock().lock();
  pages().lock().lock();
}

void unlock_all() {
  pages().lock().unlock();
  offered().lock().unlock();
  session().lock().unlock();
}

const int at_fork = pthread_atfork(lock_all, unlock_all, unlock_all);
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

// Put the allocator in the place of torch's, as often as it is put back; 0 if another one with a higher priority stays
// there.
MEMPLAN_EXPORT int memplan_install() {
  using namespace memplan::run;
  const std::lock_guard guard(installing);
  c10::Allocator* const before = c10::GetCPUAllocator();
  if (before != &allocator()) general = before;
  c10::SetCPUAllocator(&allocator());
  if (c10::GetCPUAllocator() != &allocator()) return 0;
  ++users;
  return 1;
}

// Put back the allocator that was there before, unless somebody has put another one there since.
MEMPLAN_EXPORT void memplan_uninstall() {
  using namespace memplan::run;
  const std::lock_guard guard(installing);
  if (--users == 0 && c10::GetCPUAllocator() == &allocator()) c10::SetCPUAllocator(general);
}

// From now on, what this thread allocates has pages of its own if it is large, until `more` is taken back.
MEMPLAN_EXPORT void memplan_pages(int more) { memplan::run::pages().want(more); }

// Pages that are kept for what comes go back to the system.
MEMPLAN_EXPORT void memplan_give_back() { memplan::run::pages().give_back(); }

// Bytes of pages: alive, kept for what comes, and alive at most.
MEMPLAN_EXPORT void memplan_paged(std::int64_t* out) {
  const auto [alive, kept, most] = memplan::run::pages().held();
  const std::size_t figures[] = {alive, kept, most};
  std::copy(std::begin(figures), std::end(figures), out);
}

// Offer a call of a kernel, on this thread, what `row` says: how many results and how many ranges of scratch; the arena,
// the place, the bytes and the number of each result; the arena, the place and the bytes of each range. `arenas` has the
// address of each arena, and what places and bytes in it are multiplied with. Arena -1 is all of the memory: its places
// are addresses.
MEMPLAN_EXPORT void memplan_offer(const std::int64_t* row, const std::int64_t* arenas) {
  using namespace memplan::run;
  const auto place = [&](const std::int64_t* at) -> Place {
    if (at[0] < 0) return {static_cast<Address>(at[1]), at[2]};
    const std::int64_t* arena = arenas + 2 * at[0];
    return {static_cast<Address>(arena[0] + at[1] * arena[1]), at[2] * arena[1]};
  };
  std::vector<Result> results(static_cast<std::size_t>(row[0]));
  std::vector<Place> scratch(static_cast<std::size_t>(row[1]));
  const std::int64_t* next = row + 2;
  for (Result& result : results) {
    result = {place(next), next[3]};
    next += 4;
  }
  for (Place& range : scratch) {
    range = place(next);
    next += 3;
  }
  offers().begin(std::move(results), std::move(scratch));
}

// Take torch's place, and offer what a row says; 0 if another allocator stays there: then nothing is offered.
MEMPLAN_EXPORT int memplan_open(const std::int64_t* row, const std::int64_t* arenas) {
  const int there = memplan_install();
  if (there != 0) memplan_offer(row, arenas);
  return there;
}

// End it, and give torch's place back: how many allocations it has kept, and the bytes that came from elsewhere at most.
MEMPLAN_EXPORT memplan::run::Closed memplan_close() {
  const auto ended = memplan::run::offers().end();
  memplan_uninstall();
  return {ended.kept, ended.elsewhere};
}

// Whether an address is one of those that are offered to this call.
MEMPLAN_EXPORT int memplan_offers(std::int64_t address) {
  return memplan::run::offers().has(static_cast<memplan::run::Address>(address)) ? 1 : 0;
}

// The number of the allocation of this call that gave an address last; -1 if none did.
MEMPLAN_EXPORT std::int64_t memplan_number_of(std::int64_t address) {
  return memplan::run::offers().number_of(static_cast<memplan::run::Address>(address));
}

// The allocations of this call so far; where `out` is not null, each with address, bytes, birth and death (-1: alive).
MEMPLAN_EXPORT std::int64_t memplan_made(std::int64_t* out) {
  const auto& made = memplan::run::offers().made();
  for (const auto& [at, size, born, died] : made) {
    if (out == nullptr) break;
    const std::int64_t row[] = {static_cast<std::int64_t>(at), size, born, died};
    out = std::copy(std::begin(row), std::end(row), out);
  }
  return static_cast<std::int64_t>(made.size());
}

// End it: how many allocations it made, how many of what was offered it has kept, and the bytes that came from elsewhere
// at most.
MEMPLAN_EXPORT void memplan_offered(std::int64_t* out) {
  const auto ended = memplan::run::offers().end();
  out[0] = ended.asked;
  out[1] = ended.kept;
  out[2] = ended.elsewhere;
}
