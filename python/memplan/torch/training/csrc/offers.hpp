// What one call of a kernel may allocate, by a plan: its results where they belong, and what it needs besides in bytes
// of the arena that nothing of the plan uses meanwhile. The kernel knows nothing of it.
//
//   begin(results, scratch)       on the thread that calls the kernel
//   take(size)                    a result's place if its size is exactly that, if the allocation has the number that
//                                 the result is known to have, and if nothing that was taken lies there; else the
//                                 tightest free range of scratch that is large enough; else 0, which is counted: the
//                                 memory comes from elsewhere. A result whose place is 0 comes from there too
//   give(address)                 what was taken is free again
//   made()                        all allocations of the call so far: scratch of later calls gets places by that, as
//                                 if it were results
//   end()
//
// Calls nest, as a kernel may run a plan itself. Bytes are offered to one call at a time. So whatever a kernel keeps
// past its call would be overwritten: only kernels that keep nothing may get offers, and `end` says what was kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "slots.hpp"

namespace memplan::run {

struct Place {
  Address begin;
  Bytes size;
};

constexpr std::int64_t kAnyNumber = -1;

struct Result {
  Place place;
  std::int64_t number;  // of the call's allocations, or kAnyNumber
};

// An allocation of a call. Births and deaths are counted together; `died` is kAlive until it is freed.
struct Made {
  static constexpr std::int64_t kAlive = -1;
  Address at;
  Bytes size;
  std::int64_t born, died;
};

// What memplan_close gives: allocations that were kept, and the bytes that came from elsewhere at most.
struct Closed {
  std::int64_t kept, elsewhere;
};

class Offers {
 public:
  static constexpr Bytes kSmall = 4096;  // below, scratch is not worth the search
  static constexpr Bytes kAlignment = 64;

  struct Ended {
    std::int64_t asked;  // allocations
    std::int64_t kept;   // of those, what was served and not freed
    Bytes elsewhere;     // bytes that came from elsewhere, at most at one time
  };

  void begin(std::vector<Result> results, std::vector<Place> scratch) {
    calls_.push_back({std::move(results), std::move(scratch), {}, {}, 0, 0, 0});
  }

  Address take(Bytes size) {
    if (calls_.empty() || size <= 0) return 0;
    Call& call = calls_.back();
    const auto number = static_cast<std::int64_t>(call.made.size());
    Address found = 0;
    const auto result = std::find_if(call.results.begin(), call.results.end(), [&](const Result& it) {
      return it.place.size == size && (it.number == kAnyNumber || it.number == number) &&
             is_free(call, it.place.begin, size);
    });
    if (result != call.results.end()) {
      found = result->place.begin;
      if (found == 0) result->place.size = -1;  // it is made now
    } else if (size >= kSmall) {
      found = tightest(call, size);
    }
    if (found != 0) call.taken[found] = size;
    call.made.push_back({found, size, call.ticks++, Made::kAlive});
    return found;
  }

  bool give(Address address) {
    for (Call& call : calls_) {
      if (call.taken.erase(address) == 0) continue;
      call.died(address);
      return true;
    }
    return false;
  }

  bool open() const { return !calls_.empty(); }

  // Whether an address is one of those that were offered to the last call.
  bool has(Address address) const {
    const auto holds = [&](const Place& it) {
      return it.begin <= address && address < it.begin + static_cast<Address>(std::max<Bytes>(0, it.size));
    };
    const Call& call = calls_.back();
    return std::any_of(call.results.begin(), call.results.end(), [&](const Result& it) { return holds(it.place); }) ||
           std::any_of(call.scratch.begin(), call.scratch.end(), holds);
  }

  // The number of the last allocation that gave an address; kAnyNumber if none did.
  std::int64_t number_of(Address address) const {
    const auto& made = calls_.back().made;
    const auto found = std::find_if(made.rbegin(), made.rend(), [&](const Made& it) { return it.at == address; });
    return found == made.rend() ? kAnyNumber : made.rend() - found - 1;
  }

  // The last allocation got its memory from elsewhere.
  void missed(Address address, Bytes bytes) {
    Call& call = calls_.back();
    if (!call.made.empty() && bytes > 0) call.made.back().at = address;
    call.elsewhere += bytes;
    call.most = std::max(call.most, call.elsewhere);
  }

  // Memory from elsewhere was freed.
  void freed_elsewhere(Address address, Bytes bytes) {
    if (calls_.empty()) return;
    calls_.back().elsewhere -= bytes;
    calls_.back().died(address);
  }

  const std::vector<Made>& made() const { return calls_.back().made; }

  Ended end() {
    const Call& call = calls_.back();
    const Ended ended{static_cast<std::int64_t>(call.made.size()), static_cast<std::int64_t>(call.taken.size()),
                      call.most};
    calls_.pop_back();
    return ended;
  }

 private:
  struct Call {
    std::vector<Result> results;
    std::vector<Place> scratch;  // ascending
    std::map<Address, Bytes> taken;
    std::vector<Made> made;  // by number
    Bytes elsewhere, most;
    std::int64_t ticks;  // births and deaths

    void died(Address address) {
      const auto found = std::find_if(made.rbegin(), made.rend(),
                                      [&](const Made& it) { return it.at == address && it.died == Made::kAlive; });
      if (found != made.rend()) found->died = ticks++;
    }
  };

  static bool is_free(const Call& call, Address begin, Bytes size) {
    const auto after = call.taken.lower_bound(begin);
    if (after != call.taken.end() && after->first < begin + static_cast<Address>(size)) return false;
    if (after == call.taken.begin()) return true;
    const auto& [at, bytes] = *std::prev(after);
    return at + static_cast<Address>(bytes) <= begin;
  }

  // O((r + t) log t) for r ranges and t taken.
  static Address tightest(const Call& call, Bytes size) {
    Address found = 0;
    Bytes least = 0;
    for (const Place& range : call.scratch) {
      Address at = range.begin;
      const Address end = range.begin + static_cast<Address>(range.size);
      auto next = call.taken.lower_bound(range.begin);
      while (at < end) {
        const Address stop = next == call.taken.end() ? end : std::min(end, next->first);
        const Bytes room = stop > at ? static_cast<Bytes>(stop - at) : 0;
        if (room >= size && (found == 0 || room < least)) {
          found = at;
          least = room;
        }
        if (stop == end) break;
        at = (next->first + static_cast<Address>(next->second) + kAlignment - 1) / kAlignment * kAlignment;
        ++next;
      }
    }
    return found;
  }

  std::vector<Call> calls_;
};

// Of this thread: kernels allocate on the thread that calls them.
inline Offers& offers() {
  static thread_local Offers only;
  return only;
}

// What offers have given out and not got back, and what came from elsewhere meanwhile: any thread may free it.
class Offered {
 public:
  void add(Address address) {
    const std::lock_guard guard(lock_);
    given_.insert(address);
  }

  // Whether the memory is an offer's: then nothing is to be freed.
  bool give(Address address) {
    {
      const std::lock_guard guard(lock_);
      if (given_.erase(address) == 0) return false;
    }
    offers().give(address);
    return true;
  }

  void add_elsewhere(Address address, Bytes size, std::uint64_t tag) {
    const std::lock_guard guard(lock_);
    elsewhere_[address] = {size, tag};
  }

  // The tag of memory from elsewhere; 0 for what it was told nothing of.
  std::uint64_t give_elsewhere(Address address) {
    std::pair<Bytes, std::uint64_t> entry;
    {
      const std::lock_guard guard(lock_);
      const auto found = elsewhere_.find(address);
      if (found == elsewhere_.end()) return 0;
      entry = found->second;
      elsewhere_.erase(found);
    }
    offers().freed_elsewhere(address, entry.first);
    return entry.second;
  }

  std::mutex& lock() { return lock_; }  // for a fork, in which no thread may hold it

 private:
  std::mutex lock_;
  std::unordered_set<Address> given_;
  std::unordered_map<Address, std::pair<Bytes, std::uint64_t>> elsewhere_;
};

inline Offered& offered() {
  static Offered& only = *new Offered;
  return only;
}

}  // namespace memplan::run
