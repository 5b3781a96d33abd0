// Addresses that have pages or not, and pages that move between them. Nothing of this is there but on Linux.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace memplan::run::mapped {

using Address = std::uintptr_t;
constexpr std::size_t kHuge = 2 * 1024 * 1024;  // bytes of a huge page

constexpr std::size_t up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

#if defined(__linux__)
inline std::size_t page() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// New addresses that begin where a huge page may, without pages; 0 if there are none.
inline Address addresses(std::size_t size) {
  const std::size_t spare = kHuge - page();
  void* const mapped = mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 0;
  const auto at = reinterpret_cast<Address>(mapped);
  const Address begin = up(at, kHuge);
  if (begin > at) munmap(mapped, begin - at);
  if (at + spare > begin) munmap(reinterpret_cast<void*>(begin + size), at + spare - begin);
  madvise(reinterpret_cast<void*>(begin), size, MADV_NOHUGEPAGE);  // a free neighbour of what lives gets no pages
  return begin;
}

// Huge pages come when they are written, by as many threads as write; the others now, at once.
inline void populate(Address begin, std::size_t size) {
  void* const at = reinterpret_cast<void*>(begin);
  if (begin % kHuge == 0 && size % kHuge == 0) {
    madvise(at, size, MADV_HUGEPAGE);
  } else {
#if defined(MADV_POPULATE_WRITE)
    madvise(at, size, MADV_POPULATE_WRITE);
#endif
  }
}

// Move pages to addresses that have none. What they leave stays mapped, without pages. False if not all could move.
inline bool move(Address from, Address to, std::size_t size) {
#if defined(MREMAP_DONTUNMAP)
  void *const origin = reinterpret_cast<void*>(from), *const target = reinterpret_cast<void*>(to);
  if (mremap(origin, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, target) != MAP_FAILED) return true;
  if (errno != EFAULT || size <= page()) return false;  // EFAULT: several mappings, which move one by one
  const std::size_t half = up(size / 2, page());
  return move(from, to, half) && move(from + half, to + half, size - half);
#else
  (void)from, (void)to, (void)size;
  return false;
#endif
}

inline void depopulate(Address begin, std::size_t size) {
  madvise(reinterpret_cast<void*>(begin), size, MADV_DONTNEED);
}

// From now on, no huge page comes there.
inline void unadvise(Address begin, std::size_t size) {
  madvise(reinterpret_cast<void*>(begin), size, MADV_NOHUGEPAGE);
}

inline void leave(Address begin, std::size_t size) { munmap(reinterpret_cast<void*>(begin), size); }
#else
inline std::size_t page() { return 4096; }
inline Address addresses(std::size_t) { return 0; }
inline void populate(Address, std::size_t) {}
inline bool move(Address, Address, std::size_t) { return false; }
inline void depopulate(Address, std::size_t) {}
inline void unadvise(Address, std::size_t) {}
inline void leave(Address, std::size_t) {}
#endif

}  // namespace memplan::run::mapped
