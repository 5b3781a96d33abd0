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

bool has_pages(void* pointer) {
  unsigned char there = 0;
  return mincore(pointer, 1, &there) == 0 && (there & 1) != 0;
}

constexpr std::size_t up(std::size_t size) { return (size + 4095) / 4096 * 4096; }

void test_what_is_freed_is_kept_up_to_a_limit() {
  Pages pages;
  constexpr std::size_t kMuch = Pages::kKept + Pages::kLeast;
  void* pointer = nullptr;
  {
    const Wanted wanted(pages);
    pointer = pages.take(kLarge);
    CHECK(reinterpret_cast<std::uintptr_t>(pointer) % Pages::kHuge == 0);
    std::memset(pointer, 1, kLarge);
    CHECK(pages.held().alive == up(kLarge) && pages.held().kept == 0);
    CHECK(pages.give(pointer) && pages.held().kept == up(kLarge));
    CHECK(pages.take(kLarge) == pointer && pages.give(pointer));
  }
  CHECK(pages.held().kept == up(kLarge) && has_pages(pointer));  // between two calls
  pages.give_back();
  CHECK(pages.held().kept == 0 && !is_mapped(pointer));  // its addresses too
  {
    const Wanted wanted(pages);
    pointer = pages.take(kMuch);
    CHECK(pages.give(pointer) && pages.held().kept == kMuch);
  }
  CHECK(pages.held().kept <= Pages::kKept);
  {
    const Wanted wanted(pages);
    pointer = pages.take(kMuch);
  }
  std::thread([&] { CHECK(pages.give(pointer)); }).join();  // nobody wants any
  CHECK(pages.held().alive == 0 && pages.held().kept <= Pages::kKept);
}

void test_smaller_ones_lie_in_what_was_kept() {
  Pages pages;
  const Wanted wanted(pages);
  char* const first = static_cast<char*>(pages.take(2 * kSmall));
  std::memset(first, 1, 2 * kSmall);
  CHECK(pages.give(first));
  void* const smaller = pages.take(kSmall);
  CHECK((smaller == first || smaller == first + kSmall) && pages.held().kept == kSmall);
  CHECK(pages.give(smaller) && pages.held().kept == 2 * kSmall);
  CHECK(pages.take(2 * kSmall - 1) == first && pages.held().kept == 0);  // as many pages, one range again
  CHECK(pages.give(first) && pages.held().most == 2 * kSmall);
}

void test_a_thread_that_wants_none_gets_as_much_again() {
  Pages pages;
  CHECK(pages.take(kSmall) == nullptr);
  {
    const Wanted wanted(pages);
    void* const first = pages.take(4 * kSmall);
    CHECK(pages.give(first));
  }
  CHECK(pages.take(9 * kSmall) == nullptr && pages.held().kept == 0);  // it takes that elsewhere, in their place
  void* const taken = pages.take(3 * kSmall);
  void* const more = pages.take(5 * kSmall);
  CHECK(taken != nullptr && more != nullptr && pages.held().alive == 8 * kSmall);
  CHECK(pages.give(taken) && pages.give(more));
  const std::size_t kept = pages.held().kept;
  CHECK(pages.take(64 * kSmall) == nullptr && pages.held().kept < kept);
}

// Whether pages move on this system.
bool can_move() {
  const auto from = memplan::run::mapped::addresses(Pages::kHuge), to = memplan::run::mapped::addresses(Pages::kHuge);
  return memplan::run::mapped::move(from, to, Pages::kHuge);
}

void test_what_is_lacking_comes_from_free_ranges() {
  if (!can_move()) return;
  constexpr std::size_t kOne = Pages::kHuge;
  Pages pages;
  const Wanted wanted(pages);
  void* const first = pages.take(kOne);
  void* const between = pages.take(kOne);
  void* const last = pages.take(kOne);
  for (void* const pointer : {first, between, last}) std::memset(pointer, 7, kOne);
  CHECK(pages.give(first) && pages.give(last));
  const auto* const longer = static_cast<unsigned char*>(pages.take(3 * kOne));  // `last` has a third of its pages
  CHECK(std::count(longer, longer + 3 * kOne, 7) == 2 * kOne && std::count(longer, longer + 3 * kOne, 0) == kOne);
  CHECK(pages.held().alive == 4 * kOne && pages.held().kept == 0);
  const auto* const stays = static_cast<unsigned char*>(between);
  CHECK(std::count(stays, stays + kOne, 7) == kOne);
}

// A call that needs many bytes side by side, between what it has left there and here.
void test_more_is_kept_where_pages_move_in_each_call() {
  if (!can_move()) return;
  constexpr std::size_t kUnit = 300 * 1024;
  Pages pages;
  const auto call = [&] {
    const Wanted wanted(pages);
    void* const before = pages.take(8 * kUnit);
    void* const small = pages.take(4 * kUnit);
    CHECK(pages.give(before));
    void* const large = pages.take(16 * kUnit);
    CHECK(pages.give(small) && pages.give(large));
  };
  std::size_t most = 0;
  for (int number = 0; number < 2 * Pages::kSettled; ++number) {
    call();
    const auto [alive, kept, now] = pages.held();
    most = now;
    CHECK(alive == 0 && kept <= most + (number < Pages::kSettled ? Pages::kLittle : Pages::kSpare));
  }
  CHECK(pages.held().kept > most + Pages::kLittle);
  pages.give_back();
  call();
  CHECK(pages.held().kept <= most + Pages::kLittle);
}

// Advice is given to parts of a mapping, which makes several of it.
void test_pages_of_several_mappings_move() {
  if (!can_move()) return;
  namespace mapped = memplan::run::mapped;
  const auto from = mapped::addresses(2 * Pages::kHuge), to = mapped::addresses(2 * Pages::kHuge);
  mapped::populate(from + Pages::kHuge, Pages::kHuge);  // huge, and the others small
  auto* const at = reinterpret_cast<unsigned char*>(from);
  std::memset(at, 3, 2 * Pages::kHuge);
  CHECK(mapped::move(from + 4096, to, 2 * Pages::kHuge - 4096));
  const auto* const there = reinterpret_cast<unsigned char*>(to);
  CHECK(std::count(there, there + 2 * Pages::kHuge, 3) == 2 * Pages::kHuge - 4096);
  CHECK(std::count(at, at + 2 * Pages::kHuge, 3) == 4096 && std::count(at, at + 2 * Pages::kHuge, 0) > 0);
}

// Random sizes in random order: bytes stay as they were written, allocations are apart, and what is there is bounded.
void test_never_more_than_was_alive() {
  struct One {
    unsigned char* at;
    std::size_t size;
    unsigned char value;
  };
  Pages pages;
  const Wanted wanted(pages);
  std::vector<One> alive;
  std::size_t most = 0, now = 0, chance = 1;
  for (int round = 0; round < 4000; ++round) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    const std::size_t drawn = chance >> 33;
    if (alive.size() > 12 || (!alive.empty() && drawn % 2 == 0)) {
      const auto one = alive.begin() + static_cast<std::ptrdiff_t>(drawn % alive.size());
      CHECK(one->at[0] == one->value && one->at[one->size / 2] == one->value && one->at[one->size - 1] == one->value);
      now -= up(one->size);
      CHECK(pages.give(one->at));
      alive.erase(one);
    } else {
      const std::size_t sizes[] = {kSmall, kSmall + 1, 5 * kSmall, Pages::kHuge, kLarge, 3 * Pages::kHuge};
      const std::size_t size = sizes[drawn / 2 % 6];
      auto* const at = static_cast<unsigned char*>(pages.take(size));
      CHECK(at != nullptr);
      for (const One& one : alive) CHECK(at + size <= one.at || one.at + one.size <= at);
      const auto value = static_cast<unsigned char>(round);
      at[0] = at[size / 2] = at[size - 1] = value;
      alive.push_back({at, size, value});
      now += up(size);
      most = std::max(most, now);
    }
    const auto held = pages.held();
    CHECK(held.alive == now && held.most == most && held.alive + held.kept <= most + Pages::kSpare);
  }
}

}  // namespace

int main() {
  test_who_gets_pages();
  test_what_is_freed_is_kept_up_to_a_limit();
  test_smaller_ones_lie_in_what_was_kept();
  test_a_thread_that_wants_none_gets_as_much_again();
  test_what_is_lacking_comes_from_free_ranges();
  test_more_is_kept_where_pages_move_in_each_call();
  test_pages_of_several_mappings_move();
  test_never_more_than_was_alive();
  return check::finish();
}
#else
int main() { return 0; }
#endif
