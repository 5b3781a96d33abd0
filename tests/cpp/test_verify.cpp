// Verification finds every violation, names it, and stops when told.
#include "check.hpp"
#include "memplan/errors.hpp"
#include "memplan/reuse.hpp"
#include "memplan/verify.hpp"

using namespace memplan;

namespace {

const Problem kThree({4, 4, 4}, {0, 2, 4}, {3, 5, 6}, {1, 1, 4}, {"a", "b", "c"});

void a_valid_plan_has_no_violations() { CHECK(verify(kThree, std::vector<Bytes>{0, 4, 0}, 8).empty()); }

void every_kind_is_found_and_named() {
  const auto found = verify(kThree, std::vector<Bytes>{-1, 2, 5}, 6);
  CHECK(found.size() == 5);
  CHECK(found[0].kind == ViolationKind::outside && found[0].buffer == 0);
  CHECK(found[1].kind == ViolationKind::outside && found[1].buffer == 2);
  CHECK(found[1].message == "buffer 'c' of 4 bytes at offset 5 ends beyond the arena of 6 bytes");
  CHECK(found[2].kind == ViolationKind::misaligned && found[2].buffer == 2);
  CHECK(found[3].message ==
        "buffer 'a' at bytes [-1, 3) and buffer 'b' at bytes [2, 6) share bytes [2, 3) while both are alive in steps "
        "[2, 3)");
  CHECK(found[4].buffer == 1 && found[4].other == 2);
  CHECK(verify(kThree, std::vector<Bytes>{-1, 2, 5}, 6, 2).size() == 2);
}

void touching_is_not_sharing() {
  const Problem problem({4, 4, 0}, {0, 3, 0}, {3, 5, 9});
  CHECK(verify(problem, std::vector<Bytes>{0, 0, 1}).empty());  // one dies as the other is born; no bytes at 1
}

void ends_beyond_int64_are_outside() {
  const Problem problem({10, 1}, {0, 0}, {1, 1});
  const auto found = verify(problem, std::vector<Bytes>{kMaxBytes - 3, 0});
  CHECK(found.size() == 1 && found[0].kind == ViolationKind::outside);
}

void all_pairs_are_reported() {
  const Problem problem(std::vector<Bytes>(40, 5), std::vector<Step>(40, 0), std::vector<Step>(40, 2));
  CHECK(verify(problem, std::vector<Bytes>(40, 7)).size() == 40 * 39 / 2);
}

void lengths_must_match() {
  THROWS(verify(kThree, std::vector<Bytes>{0}), ProblemError, "the problem has 3, offsets has 1");
  THROWS(reused_by(kThree, std::vector<Bytes>{0}), ProblemError, "the problem has 3, offsets has 1");
}

void successors_take_over_bytes() {
  const Problem problem({8, 4, 4, 2}, {0, 1, 2, 3}, {1, 4, 4, 5});
  CHECK(reused_by(problem, std::vector<Bytes>{0, 0, 4, 8}) == (std::vector<Index>{1, kNone, kNone, kNone}));
}

}  // namespace

int main() {
  a_valid_plan_has_no_violations();
  every_kind_is_found_and_named();
  touching_is_not_sharing();
  ends_beyond_int64_are_outside();
  all_pairs_are_reported();
  lengths_must_match();
  successors_take_over_bytes();
  return check::finish();
}
