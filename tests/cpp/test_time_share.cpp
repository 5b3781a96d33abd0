// What parts get of a time limit: their share of what is left, and the least where nothing is.
#include <chrono>
#include <optional>

#include "base/time_share.hpp"
#include "check.hpp"
#include "memplan/limits.hpp"

using namespace memplan;

namespace {

using Clock = std::chrono::steady_clock;

void test_a_share_of_what_is_left() {
  const Clock::time_point begin = Clock::now() - std::chrono::seconds(40);
  Limits part;
  share_time(part, 100, begin, 0.5);
  CHECK(part.time_limit && 25 < *part.time_limit && *part.time_limit <= 30);
  share_time(part, 100, begin);
  CHECK(50 < *part.time_limit && *part.time_limit <= 60);
}

// Whether the time is over, or the limit itself is shorter than that.
void test_late_parts_get_the_least() {
  Limits part;
  share_time(part, 100, Clock::now() - std::chrono::seconds(101), 0.5);
  CHECK(part.time_limit == kLeastTime);
  share_time(part, 1e-9, Clock::now());
  CHECK(part.time_limit == kLeastTime);
}

void test_a_part_counts_from_its_own_begin() {
  Limits part{1, Clock::now() - std::chrono::seconds(7), [] { return true; }};
  share_time(part, 100, Clock::now());
  CHECK(!part.start);
  CHECK(part.stop && part.stop());
}

void test_no_limit_stays_none() {
  Limits part{1, {}, {}};
  share_time(part, std::nullopt, Clock::now(), 0.5);
  CHECK(!part.time_limit);
  CHECK(!share_of(std::nullopt, 0.5));
}

// A share of a whole limit has no least: who is given so little is not late.
void test_a_share_of_all() {
  CHECK(share_of(8, 0.25) == 2.0);
  CHECK(share_of(1e-9, 1) == 1e-9);
}

}  // namespace

int main() {
  test_a_share_of_what_is_left();
  test_late_parts_get_the_least();
  test_a_part_counts_from_its_own_begin();
  test_no_limit_stays_none();
  test_a_share_of_all();
  return check::finish();
}
