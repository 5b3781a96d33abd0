// Pages of single allocations: who gets some, what goes back to the system, and what is kept for later.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.hpp"
#include "pages.hpp"

#if defined(__linux__)
#include <sys/mman.h>

namespace {

using memplan::run::Pages;

constexpr std::size_t kSmall = Pages::kLeast, kLarge = 3 * Pages::kHuge / 2 + 1;

bool is_mapped(void* pointer) {
  unsigned char there = 0;
  return mincore(pointer, 1, &there) == 0;
}

// While it lives, this thread wants pages.
struct Wanted {
  explicit Wanted(Pages& of) : pages(of) { pages.want(1); }
  ~Wanted() { pages.want(-1); }
  Wanted(const Wanted&) = delete;
  Wanted& operator=(const Wanted&) = delete;
  Pages& pages;
};

void test_who_gets_pages() {
  Pages pages;
  CHECK(pages.take(kLarge) == nullptr);
  const Wanted wanted(pages);
  CHECK(pages.take(kSmall - 1) == nullptr && pages.take(SIZE_MAX) == nullptr && pages.take(Pages::kMost) == nullptr);
  void* const pointer = pages.take(kSmall);
  CHECK(pointer != nullptr && pages.owns(pointer));
  void* of_other = pointer;
  std::thread([&] { of_other = pages.take(kLarge); }).join();
  CHECK(of_other == nullptr);
  int other = 0;
  CHECK(!pages.owns(&other) && !pages.give(&other) && !pages.give(static_cast<char*>(pointer) + 4096));
  CHECK(pages.give(pointer) && !pages.owns(pointer) && !pages.give(pointer));
}

void test_large_ones_go_back() {
  Pages pages;
  void* pointer = nullptr;
  {
    const Wanted wanted(pages);
    pointer = pages.take(kLarge);
    CHECK(reinterpret_cast<std::uintptr_t>(pointer) % Pages::kHuge == 0);
    std::memset(pointer, 1, kLarge);
    CHECK(pages.held().alive == kLarge - 1 + 4096 && pages.held().kept == 0);
    CHECK(pages.give(pointer) && pages.held().kept == kLarge - 1 + 4096);
    CHECK(pages.take(kLarge) == pointer && pages.give(pointer));
    std::thread([&] { const Wanted other(pages); }).join();
    CHECK(is_mapped(pointer));  // this thread still wants pages
  }
  CHECK(pages.held().kept == 0 && !is_mapped(pointer));
  {
    const Wanted wanted(pages);
    pointer = pages.take(kLarge);
  }
  std::thread([&] { CHECK(pages.give(pointer)); }).join();  // nobody wants any
  CHECK(pages.held().alive == 0 && pages.held().kept == 0 && !is_mapped(pointer));
}

void test_small_ones_are_kept() {
  Pages pages;
  const Wanted wanted(pages);
  void* const first = pages.take(2 * kSmall);
  std::memset(first, 1, 2 * kSmall);
  CHECK(pages.give(first) && pages.held().kept == 2 * kSmall && is_mapped(first));
  CHECK(pages.take(2 * kSmall - 1) == first);  // as many pages
  CHECK(pages.held().alive == 2 * kSmall && pages.held().kept == 0);
  CHECK(pages.give(first));
  void* const smaller = pages.take(kSmall);  // of another size: what was kept makes room
  CHECK(smaller != first && pages.held().kept == 0 && pages.held().alive == kSmall);
  CHECK(pages.give(smaller) && pages.held().most == 2 * kSmall);
}

void test_never_more_than_was_alive() {
  Pages pages;
  const Wanted wanted(pages);
  std::size_t most = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<void*> taken;
    for (std::size_t k = 1; k < 8; ++k) {
      taken.push_back(pages.take((k * 7 + static_cast<std::size_t>(round)) % 11 * 4096 + kSmall));
      const auto held = pages.held();
      most = std::max(most, held.alive);
      CHECK(held.most == most && held.alive + held.kept <= most);
    }
    for (void* pointer : taken) CHECK(pages.give(pointer));
    CHECK(pages.held().alive == 0 && pages.held().kept <= most);
  }
}

}  // namespace

int main() {
  test_who_gets_pages();
  test_large_ones_go_back();
  test_small_ones_are_kept();
  test_never_more_than_was_alive();
  return check::finish();
}
#else
int main() { return 0; }
#endif
