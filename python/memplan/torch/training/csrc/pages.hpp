// Memory of whole pages for large allocations. What is freed goes back to the system, or serves what comes: malloc would
// keep such bytes between what lives, for whoever asks for less.
//
//   want(1)           on this thread, until want(-1): it takes new pages
//   take(size)        whole pages; nullptr if there are none: take them elsewhere. Threads that want none get some too, as
//                     long as no more is alive than twice what was at one time: their steps go on between two calls
//   give(pointer)     back, by any thread; false for what was not taken here
//   give_back()       what was freed, all of it, as if no more had ever been alive than now
//
// New pages cost time: the system fills them with zeros. So what is freed is kept, and allocations lie where they need
// the fewest new pages. All together is never more than what was alive at one time and kLittle: from there on, pages that
// are missing come from free ranges. They move, and are not filled again. But a move costs time too: if some still move
// after kSettled calls, more is kept, up to kSpare. While no thread wants pages, no more than kKept is kept. Huge pages
// cost less for as many bytes: parts of 2 MiB are asked for as such, and move as such.
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
#include <vector>

#include "mapped.hpp"

namespace memplan::run {

using mapped::page, mapped::up;

class Pages {
 public:
  static constexpr std::size_t kLeast = 64 * 1024;            // bytes of an allocation: less is not worth whole pages
  static constexpr std::size_t kMost = std::size_t{1} << 46;  // there are no more addresses
  static constexpr std::size_t kHuge = mapped::kHuge;         // bytes of a huge page
  static constexpr std::size_t kSegment = 64 * 1024 * 1024;   // addresses that are reserved at once, at least
  static constexpr std::size_t kLittle = 256 * 1024;          // lest a small network takes new pages in each step
  static constexpr std::size_t kSpare = 1024 * 1024;          // at most, lest pages move in each step
  static constexpr int kSettled = 6;                          // calls in which as much was alive as ever
  static constexpr std::size_t kKept = 256 * 1024 * 1024;  // between steps: what goes back is filled anew in the next

  struct Held {
    std::size_t alive, kept, most;  // bytes: in use, for what comes, and in use at most
  };

  // Whether this thread wants pages: as often as `more` is 1 than it is -1.
  void want(int more) {
    wanted() += more;
    const std::lock_guard guard(lock_);
    wanting_ += more;
    if (more > 0 && wanting_ == 1) ++calls_;
    if (wanting_ == 0 && held_.kept > kKept) drop(held_.kept - kKept);
  }

  void* take(std::size_t size) {
    if (size < kLeast || size > kMost) return nullptr;
    const std::size_t whole = up(size, page());
    const std::lock_guard guard(lock_);
    if (wanted() == 0 && held_.alive + whole > 2 * held_.most) {
      drop(std::min(held_.kept, whole));  // what is taken elsewhere comes in their place
      return nullptr;
    }
    std::optional<Window> window = cheapest(whole);
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

  // What is kept goes back to the system, and what was alive before is forgotten.
  void give_back() {
    const std::lock_guard guard(lock_);
    drop(held_.kept);
    held_.most = held_.alive;
    spare_ = kLittle;
    calls_ = 0;
  }

  Held held() {
    const std::lock_guard guard(lock_);
    return held_;
  }

  std::mutex& lock() { return lock_; }  // for a fork, in which no thread may hold it

 private:
  using Begin = mapped::Address;

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
    const Begin begin = mapped::addresses(whole);
    if (begin == 0) return std::nullopt;
    segments_[begin] = whole;
    free_[begin] = {whole, begin, false};
    return Window{begin, begin, size, whole};
  }

  // Take a window out of the free ranges. What it lacks comes from others where there is enough, and is new elsewhere.
  void use(const Window& window, std::size_t size) {
    const Begin begin = window.begin, end = begin + size;
    std::vector<Part> lacking;
    auto range = std::prev(free_.upper_bound(begin));
    while (range != free_.end() && range->first < end) {
      const auto [first, free] = *range;
      const Begin last = first + free.size;
      range = free_.erase(range);
      if (first < begin) free_[first] = {begin - first, free.segment, free.has_pages};
      if (last > end) free_[end] = {last - end, free.segment, free.has_pages};
      if (free.has_pages) continue;
      for (const Part& part : parts(std::max(first, begin), std::min(last, end))) lacking.push_back(part);
    }
    held_.kept -= size - window.missing;
    held_.alive += size;
    if (held_.alive > held_.most) {
      held_.most = held_.alive;
      calls_ = 0;
    }
    const std::size_t all = held_.alive + held_.kept;
    if (calls_ >= kSettled && all > held_.most + spare_) spare_ = std::min(kSpare, all - held_.most);
    if (const std::size_t most = held_.most + spare_; all > most) {
      std::size_t bytes = all - most;
      for (Part& part : lacking) bytes -= std::min(bytes, fill(part, bytes));
      drop(bytes);
    }
    for (const Part& part : lacking)
      if (part.begin < part.end) mapped::populate(part.begin, part.end - part.begin);
  }

  // Addresses that are filled by huge pages, or by small ones.
  struct Part {
    Begin begin, end;
    bool huge;
  };

  static std::vector<Part> parts(Begin begin, Begin end) {
    const Begin first = std::min(end, up(begin, kHuge)), last = std::max(first, end / kHuge * kHuge);
    std::vector<Part> found;
    for (const Part& part : {Part{begin, first, false}, Part{first, last, true}, Part{last, end, false}})
      if (part.begin < part.end) found.push_back(part);
    return found;
  }

  // Move pages of free ranges to the beginning of a part, until it is full, or so many bytes have lost theirs: these
  // are counted. The part is what is still without pages.
  std::size_t fill(Part& part, std::size_t bytes) {
    std::size_t lost = 0;
    while (part.begin < part.end && lost < bytes) {
      std::optional<Part> from = largest(part.huge);
      if (!from) {
        part.huge = false;  // huge pages move in pieces, and where they may lie, small ones do too
        from = largest(true);
        if (!from) from = largest(false);
      }
      if (!from) break;
      const std::size_t unit = part.huge ? kHuge : page();
      const std::size_t size = std::min({part.end - part.begin, from->end - from->begin, up(bytes - lost, unit)});
      const bool moved = mapped::move(from->begin, part.begin, size);
      if (moved) part.begin += size;
      lose(from->begin, from->begin + size, moved);
      lost += size;
    }
    return lost;
  }

  // The largest part of free ranges with pages, of one kind.
  std::optional<Part> largest(bool huge) const {
    std::optional<Part> best;
    for (const auto& [first, free] : free_) {
      if (!free.has_pages) continue;
      for (const Part& part : parts(first, first + free.size))
        if (part.huge == huge && (!best || part.end - part.begin > best->end - best->begin)) best = part;
    }
    return best;
  }

  // At least so many bytes of free ranges lose their pages, the largest parts first; huge ones where there are some.
  void drop(std::size_t bytes) {
    while (bytes > 0) {
      std::optional<Part> part = largest(true);
      if (!part) part = largest(false);
      if (!part) return;
      const std::size_t size = std::min(part->end - part->begin, up(bytes, part->huge ? kHuge : page()));
      lose(part->begin, part->begin + size, false);
      bytes -= std::min(bytes, size);
    }
  }

  // A part of a free range that has pages has them no more; they may be `gone` already.
  void lose(Begin begin, Begin end, bool gone) {
    const auto range = std::prev(free_.upper_bound(begin));
    const auto [first, free] = *range;
    const Begin last = first + free.size;
    free_.erase(range);
    if (first < begin) free_[first] = {begin - first, free.segment, true};
    if (end < last) free_[end] = {last - end, free.segment, true};
    if (!gone) mapped::depopulate(begin, end - begin);
    mapped::unadvise(begin, end - begin);
    held_.kept -= end - begin;
    add(begin, {end - begin, free.segment, false});
    leave_if_empty(free.segment);
  }

  // The addresses of a segment without pages go back too.
  void leave_if_empty(Begin segment) {
    const auto range = free_.find(segment);
    if (range == free_.end() || range->second.has_pages || range->second.size != segments_.at(segment)) return;
    mapped::leave(segment, range->second.size);
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

  std::mutex lock_;
  int wanting_ = 0;              // of all threads
  int calls_ = 0;                // in which a thread wanted pages, since more was alive than ever
  std::size_t spare_ = kLittle;  // bytes that are kept besides what was alive at most
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
