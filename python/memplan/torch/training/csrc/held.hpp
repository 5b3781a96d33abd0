// The most that the process holds: its anonymous memory, read where much is allocated. Nothing is reset, so whoever
// measures the process by its high-water mark still can. A sample counts what was written before, so the most of a step
// is a little above what is seen.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>

#if defined(__linux__)
#include <unistd.h>
#endif

namespace memplan::run {

class Held {
 public:
  static constexpr std::size_t kLarge = 64 * 1024;  // bytes of an allocation before which one looks

  void begin() {
    most_ = 0;
    on_ = true;
    look();
  }

  std::int64_t end() {
    look();
    on_ = false;
    return most_;
  }

  void before(std::size_t size) {
    if (size >= kLarge && on_) look();
  }

 private:
  void look() {
    const std::int64_t now = anonymous_bytes();
    std::int64_t most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }

  // 0 where it is not known.
  static std::int64_t anonymous_bytes() {
#if defined(__linux__)
    std::FILE* const file = std::fopen("/proc/self/statm", "re");
    if (file == nullptr) return 0;
    long long size = 0, resident = 0, shared = 0;
    const int read = std::fscanf(file, "%lld %lld %lld", &size, &resident, &shared);
    std::fclose(file);
    return read == 3 ? (resident - shared) * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE)) : 0;
#else
    return 0;
#endif
  }

  std::atomic<std::int64_t> most_ = 0;
  std::atomic<bool> on_ = false;
};

inline Held& held() {
  static Held only;
  return only;
}

}  // namespace memplan::run
