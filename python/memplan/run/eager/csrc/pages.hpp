// Memory that the system maps for one allocation, and that goes back when it is freed. malloc would keep such bytes
// between what lives, for whoever asks for less.
//
//   want(1)           on this thread, until want(-1)
//   take(size)        whole pages; nullptr if this thread wants none, or there are none: take them elsewhere
//   give(pointer)     back, by any thread; false for what was not taken here
//
// New pages cost time: the system fills them with zeros. So what is freed while pages are wanted is kept for the next
// allocation of its size, as long as all together is no more than what was alive at one time. Huge pages cost less for as
// many bytes: they go back when no thread wants any, the others are kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace memplan::run {

class Pages {
 public:
  static constexpr std::size_t kLeast = 64 * 1024;            // bytes of an allocation: less is not worth whole pages
  static constexpr std::size_t kMost = std::size_t{1} << 46;  // there are no more addresses
  static constexpr std::size_t kHuge = 2 * 1024 * 1024;       // bytes of a huge page
  static constexpr std::size_t kMappings = 20000;             // alive; a process may have 65,530

  struct Held {
    std::size_t alive, kept, most;  // bytes: in use, for what comes, and in use at most
  };

  // Whether this thread wants pages: as often as `more` is 1 than it is -1.
  void want(int more) {
    wanted() += more;
    const std::lock_guard guard(lock_);
    wanting_ += more;
    if (wanting_ > 0) return;
    for (auto large = kept_.lower_bound(kHuge); large != kept_.end(); large = kept_.lower_bound(kHuge)) {
      const std::size_t bytes = large->first;
      unmap(forgotten(large), bytes);
    }
  }

  void* take(std::size_t size) {
    if (size < kLeast || size > kMost || wanted() == 0) return nullptr;
    const std::size_t whole = up(size, page());
    const std::lock_guard guard(lock_);
    void* const pointer = sizes_.size() < kMappings ? found(whole) : nullptr;
    if (pointer == nullptr) return nullptr;
    sizes_[pointer] = whole;
    held_.alive += whole;
    held_.most = std::max(held_.most, held_.alive);
    return pointer;
  }

  bool give(void* pointer) {
    const std::lock_guard guard(lock_);
    const auto entry = sizes_.find(pointer);
    if (entry == sizes_.end()) return false;
    const std::size_t size = entry->second;
    sizes_.erase(entry);
    held_.alive -= size;
    if (size >= kHuge && wanting_ == 0) {
      unmap(pointer, size);
    } else {
      kept_.emplace(size, pointer);
      held_.kept += size;
    }
    return true;
  }

  bool owns(void* pointer) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % page() != 0) return false;
    const std::lock_guard guard(lock_);
    return sizes_.contains(pointer);
  }

  Held held() {
    const std::lock_guard guard(lock_);
    return held_;
  }

  std::mutex& lock() { return lock_; }  // for a fork, in which no thread may hold it

 private:
  static int& wanted() {
    static thread_local int times = 0;
    return times;
  }

  static std::size_t up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

  // What was kept of that size, or new pages in place of other ones.
  void* found(std::size_t size) {
    const auto same = kept_.find(size);
    if (same != kept_.end()) return forgotten(same);
    while (!kept_.empty() && held_.alive + held_.kept + size > held_.most) {
      const auto largest = std::prev(kept_.end());
      const std::size_t bytes = largest->first;
      unmap(forgotten(largest), bytes);
    }
    return mapped(size);
  }

  void* forgotten(std::multimap<std::size_t, void*>::iterator entry) {
    void* const pointer = entry->second;
    held_.kept -= entry->first;
    kept_.erase(entry);
    return pointer;
  }

#if defined(__linux__)
  static std::size_t page() {
    static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
  }

  static void* mapped(std::size_t size) { return size < kHuge ? of_system(size, MAP_POPULATE) : with_huge_pages(size); }

  // Huge pages lie inside: none is shared with a neighbour, which would hold what is freed here.
  static void* with_huge_pages(std::size_t size) {
    const std::size_t spare = kHuge - page();
    char* const begin = static_cast<char*>(of_system(size + spare, 0));
    if (begin == nullptr) return nullptr;
    const std::size_t before =
        up(reinterpret_cast<std::uintptr_t>(begin), kHuge) - reinterpret_cast<std::uintptr_t>(begin);
    unmap(begin, before);
    unmap(begin + before + size, spare - before);
    madvise(begin + before, size / kHuge * kHuge, MADV_HUGEPAGE);
    return begin + before;
  }

  static void* of_system(std::size_t size, int flags) {
    void* const pointer = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return pointer == MAP_FAILED ? nullptr : pointer;
  }

  static void unmap(void* pointer, std::size_t size) {
    if (size > 0) munmap(pointer, size);
  }
#else
  static std::size_t page() { return 4096; }
  static void* mapped(std::size_t) { return nullptr; }
  static void unmap(void*, std::size_t) {}
#endif

  std::mutex lock_;
  int wanting_ = 0;                               // of all threads
  std::unordered_map<void*, std::size_t> sizes_;  // of what is alive
  std::multimap<std::size_t, void*> kept_;
  Held held_ = {0, 0, 0};
};

// Never destroyed: tensors are freed after all else.
inline Pages& pages() {
  static Pages& only = *new Pages;
  return only;
}

}  // namespace memplan::run
