// Memory of whole pages for large allocations. What is freed goes back to the system, or serves what comes: malloc would
// keep such bytes between what lives, for whoever asks for less.
//
//   want(1)           on this thread, until want(-1): it takes new pages
//   take(size)        whole pages; nullptr if there are none: take them elsewhere. A thread that wants none gets those of
//                     which at least half were freed here
//   give(pointer)     back, by any thread; false for what was not taken here
//   give_back()       what was freed, all of it
//
// New pages cost time: the system fills them with zeros. So what is freed is kept, and allocations lie where they need
// the fewest new pages. All together is never more than what was alive at one time and kSpare. While no thread wants
// pages, no more than kKept is kept. Huge pages cost less for as many bytes: parts of 2 MiB are asked for as such.
//
// The addresses are those of segments. Each is cut into allocations and free ranges, which have pages or not; neighbours
// that are alike are one range. Taking looks at all free ranges: O(n), and a few system calls if pages are missing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
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
  static constexpr std::size_t kSegment = 64 * 1024 * 1024;   // addresses that are reserved at once, at least
  static constexpr std::size_t kSpare = 1024 * 1024;          // lest a small network takes new pages in each step
  static constexpr std::size_t kKept = 64 * 1024 * 1024;      // about what malloc keeps between two steps

  struct Held {
    std::size_t alive, kept, most;  // bytes: in use, for what comes, and in use at most
  };

  // Whether this thread wants pages: as often as `more` is 1 than it is -1.
  void want(int more) {
    wanted() += more;
    const std::lock_guard guard(lock_);
    wanting_ += more;
    if (wanting_ == 0 && held_.kept > kKept) drop(held_.kept - kKept);
  }

  void* take(std::size_t size) {
    if (size < kLeast || size > kMost || (wanted() == 0 && empty())) return nullptr;
    const std::size_t whole = up(size, page());
    const std::lock_guard guard(lock_);
    std::optional<Window> window = cheapest(whole);
    if (wanted() == 0 && (!window || 2 * window->missing > whole)) {
      drop(std::min(held_.kept, whole));  // what is taken elsewhere comes in their place
      return nullptr;
    }
    if (!window) window = reserved(whole);
    if (!window) return nullptr;
    use(*window, whole);
    void* const pointer = reinterpret_cast<void*>(window->begin);
    alive_[pointer] = {whole, window->segment};
    return pointer;
  }

  bool give(void* pointer) {
    const std::lock_guard guard(lock_);
    const auto entry = alive_.find(pointer);
    if (entry == alive_.end()) return false;
    const auto [size, segment] = entry->second;
    alive_.erase(entry);
    held_.alive -= size;
    held_.kept += size;
    add(reinterpret_cast<Begin>(pointer), {size, segment, true});
    if (wanting_ == 0 && held_.kept > kKept) drop(held_.kept - kKept);
    return true;
  }

  bool owns(void* pointer) {
    if (reinterpret_cast<Begin>(pointer) % page() != 0) return false;
    const std::lock_guard guard(lock_);
    return alive_.contains(pointer);
  }

  // What is kept goes back to the system.
  void give_back() {
    const std::lock_guard guard(lock_);
    drop(held_.kept);
  }

  Held held() {
    const std::lock_guard guard(lock_);
    return held_;
  }

  std::mutex& lock() { return lock_; }  // for a fork, in which no thread may hold it

 private:
  using Begin = std::uintptr_t;

  struct Allocation {
    std::size_t size;
    Begin segment;
  };

  struct Free {
    std::size_t size;
    Begin segment;  // where it begins
    bool has_pages;
  };

  struct Window {
    Begin begin, segment;
    std::size_t missing;  // bytes without pages
    std::size_t room;     // bytes of the free ranges around it that lie side by side
  };

  using Ranges = std::map<Begin, Free>;

  static int& wanted() {
    static thread_local int times = 0;
    return times;
  }

  static std::size_t up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

  bool empty() {
    const std::lock_guard guard(lock_);
    return held_.kept == 0;
  }

  // Where `size` bytes need the fewest new pages, and among these in the smallest room.
  std::optional<Window> cheapest(std::size_t size) const {
    std::optional<Window> best;
    for (auto first = free_.begin(); first != free_.end();) {
      auto last = first;  // of the ranges that lie side by side in a segment
      for (auto next = std::next(last); next != free_.end() && follows(*last, *next); ++next) last = next;
      const Begin begin = first->first, end = last->first + last->second.size;
      const auto after = std::next(last);
      if (end - begin >= size) {
        for (auto range = first; range != after; ++range) {
          const Begin stop = range->first + range->second.size;
          const Begin starts[] = {range->first, stop - std::min<std::size_t>(size, stop)};
          for (const Begin start : starts) {
            if (start < begin || start + size > end) continue;
            const Window window{start, range->second.segment, missing(start, start + size, first), end - begin};
            if (!best || window.missing < best->missing ||
                (window.missing == best->missing && window.room < best->room))
              best = window;
          }
        }
      }
      first = after;
    }
    return best;
  }

  static bool follows(const Ranges::value_type& range, const Ranges::value_type& next) {
    return range.first + range.second.size == next.first && range.second.segment == next.second.segment;
  }

  // Bytes without pages between two addresses, within free ranges that lie side by side from `range` on.
  static std::size_t missing(Begin begin, Begin end, Ranges::const_iterator range) {
    std::size_t bytes = 0;
    for (Begin to = begin; to < end; ++range) {
      const Begin from = std::max(begin, range->first);
      to = std::min<Begin>(end, range->first + range->second.size);
      if (from < to && !range->second.has_pages) bytes += to - from;
    }
    return bytes;
  }

  // A free range without pages of new addresses.
  std::optional<Window> reserved(std::size_t size) {
    const std::size_t whole = std::max(kSegment, up(size, kHuge));
    const Begin begin = addresses(whole);
    if (begin == 0) return std::nullopt;
    segments_[begin] = whole;
    free_[begin] = {whole, begin, false};
    return Window{begin, begin, size, whole};
  }

  // Take a window out of the free ranges. Others lose pages before it gets those that it lacks.
  void use(const Window& window, std::size_t size) {
    const Begin begin = window.begin, end = begin + size;
    Ranges without;
    auto range = std::prev(free_.upper_bound(begin));
    while (range != free_.end() && range->first < end) {
      const auto [first, free] = *range;
      const Begin last = first + free.size;
      range = free_.erase(range);
      if (first < begin) free_[first] = {begin - first, free.segment, free.has_pages};
      if (last > end) free_[end] = {last - end, free.segment, free.has_pages};
      const Begin from = std::max(first, begin);
      if (!free.has_pages) without[from] = {std::min(last, end) - from, free.segment, false};
    }
    held_.kept -= size - window.missing;
    held_.alive += size;
    held_.most = std::max(held_.most, held_.alive);
    if (const std::size_t all = held_.alive + held_.kept, most = held_.most + kSpare; all > most) drop(all - most);
    for (const auto& [first, free] : without) populate(first, free.size);
  }

  // At least so many bytes of free ranges lose their pages, the largest first; whole huge pages where there are some.
  void drop(std::size_t bytes) {
    while (bytes > 0) {
      auto largest = free_.end();
      for (auto range = free_.begin(); range != free_.end(); ++range)
        if (range->second.has_pages && (largest == free_.end() || range->second.size > largest->second.size))
          largest = range;
      if (largest == free_.end()) return;
      const auto [first, free] = *largest;
      const Begin last = first + free.size;
      Begin begin = first, end = std::min<Begin>(last, first + up(bytes, page()));
      if (const Begin huge = up(first, kHuge); huge + kHuge <= last) {
        begin = huge;
        end = std::min<Begin>(last / kHuge * kHuge, huge + up(bytes, kHuge));
      }
      free_.erase(largest);
      if (first < begin) free_[first] = {begin - first, free.segment, true};
      if (end < last) free_[end] = {last - end, free.segment, true};
      depopulate(begin, end - begin);
      add(begin, {end - begin, free.segment, false});
      leave_if_empty(free.segment);
      held_.kept -= end - begin;
      bytes -= std::min<std::size_t>(bytes, end - begin);
    }
  }

  // The addresses of a segment without pages go back too.
  void leave_if_empty(Begin segment) {
    const auto range = free_.find(segment);
    if (range == free_.end() || range->second.has_pages || range->second.size != segments_.at(segment)) return;
    leave(segment, range->second.size);
    free_.erase(range);
    segments_.erase(segment);
  }

  // One more free range, which becomes one with its neighbours that are alike.
  void add(Begin begin, Free free) {
    auto next = free_.lower_bound(begin);
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second.size == begin && alike(before->second, free)) {
        begin = before->first;
        free.size += before->second.size;
        free_.erase(before);
      }
    }
    if (next != free_.end() && begin + free.size == next->first && alike(next->second, free)) {
      free.size += next->second.size;
      free_.erase(next);
    }
    free_[begin] = free;
  }

  static bool alike(const Free& a, const Free& b) { return a.segment == b.segment && a.has_pages == b.has_pages; }

#if defined(__linux__)
  static std::size_t page() {
    static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
  }

  // New addresses that begin where a huge page may, without pages; 0 if there are none.
  static Begin addresses(std::size_t size) {
    const std::size_t spare = kHuge - page();
    void* const mapped = mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return 0;
    const auto at = reinterpret_cast<Begin>(mapped);
    const Begin begin = up(at, kHuge);
    if (begin > at) munmap(mapped, begin - at);
    if (at + spare > begin) munmap(reinterpret_cast<void*>(begin + size), at + spare - begin);
    madvise(reinterpret_cast<void*>(begin), size, MADV_NOHUGEPAGE);  // a free neighbour of what lives gets no pages
    return begin;
  }

  // Huge pages come when they are written, by as many threads as write; the others now, at once.
  static void populate(Begin begin, std::size_t size) {
    const Begin end = begin + size, first = std::min(end, up(begin, kHuge)),
                last = std::max(first, end / kHuge * kHuge);
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#if defined(MADV_POPULATE_WRITE)
    if (begin < first) madvise(reinterpret_cast<void*>(begin), first - begin, MADV_POPULATE_WRITE);
    if (last < end) madvise(reinterpret_cast<void*>(last), end - last, MADV_POPULATE_WRITE);
#endif
  }

  static void depopulate(Begin begin, std::size_t size) {
    madvise(reinterpret_cast<void*>(begin), size, MADV_DONTNEED);
    madvise(reinterpret_cast<void*>(begin), size, MADV_NOHUGEPAGE);
  }

  static void leave(Begin begin, std::size_t size) { munmap(reinterpret_cast<void*>(begin), size); }
#else
  static std::size_t page() { return 4096; }
  static Begin addresses(std::size_t) { return 0; }
  static void populate(Begin, std::size_t) {}
  static void depopulate(Begin, std::size_t) {}
  static void leave(Begin, std::size_t) {}
#endif

  std::mutex lock_;
  int wanting_ = 0;  // of all threads
  std::unordered_map<void*, Allocation> alive_;
  Ranges free_;
  std::unordered_map<Begin, std::size_t> segments_;  // their bytes
  Held held_ = {0, 0, 0};
};

// Never destroyed: tensors are freed after all else.
inline Pages& pages() {
  static Pages& only = *new Pages;
  return only;
}

}  // namespace memplan::run
