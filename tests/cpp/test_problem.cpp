// Problems, their bounds, and which bytes are taken when.
#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/occupancy.hpp"

using namespace memplan;

namespace {

constexpr Bytes kHuge = Bytes{1} << 62;

void columns_are_checked() {
  THROWS(Problem({1, 2}, {0}, {1, 1}), ProblemError, "size has 2, first has 1");
  THROWS(Problem({-1}, {0}, {1}), ProblemError, "size[0] must be >= 0, got -1");
  THROWS(Problem({1}, {5}, {5}), ProblemError, "last[0] must be > first[0] = 5, got 5");
  THROWS(Problem({1}, {0}, {1}, {0}), ProblemError, "alignment[0] must be >= 1, got 0");
  THROWS(Problem({1}, {0}, {1}, {1}, {"a", "b"}), ProblemError, "names has 2");
  THROWS(Problem({kHuge, kHuge}, {0, 5}, {1, 6}), ProblemError, "at most 2^63 - 1");
  THROWS(Problem({kMaxBytes}, {0}, {1}, {2}), ProblemError, "at most 2^63 - 1");
  CHECK(Problem({kMaxBytes}, {0}, {1}).count() == 1);
  CHECK(Problem({1}, {0}, {1}, {}, {"a"}).name(0) == "a");
  CHECK(Problem({1}, {0}, {1}).name(0) == "#0");
}

void a_copy_outlives_its_source() {
  auto source = std::make_unique<Problem>(std::vector<Bytes>{1, 2}, std::vector<Step>{0, 1}, std::vector<Step>{1, 2});
  const Problem copy = *source;
  source.reset();
  CHECK(copy.size(1) == 2);
  CHECK(copy == Problem({1, 2}, {0, 1}, {1, 2}));
  CHECK(!(copy == Problem({1, 2}, {0, 1}, {1, 3})));
}

void load_is_a_staircase() {
  const Problem problem({4, 3, 2}, {-2, 0, 3}, {1, 3, 4});
  CHECK(load(problem) == 7);
  const LoadCurve curve = load_curve(problem);
  CHECK(curve.step == (std::vector<Step>{-2, 0, 1, 3, 4}));
  CHECK(curve.bytes == (std::vector<Bytes>{4, 7, 3, 2, 0}));
  CHECK(overlapping_pairs(problem) == 1);
  CHECK(load(Problem({}, {}, {})) == 0);
  CHECK(load_curve(Problem({}, {}, {})).step.empty());
}

void occupancy_joins_what_touches() {
  // lives: 0 [0, 3), 1 [2, 5), 2 [4, 6), 3 [2, 3), 4 [0, 9)
  const Problem problem({4, 4, 4, 2, 1}, {0, 2, 4, 2, 0}, {3, 5, 6, 3, 9});
  Occupancy placed(problem);
  const auto taken = [&](Index i) {
    const auto ranges = placed.taken(problem.first(i), problem.last(i));
    return std::vector<ByteRange>(ranges.begin(), ranges.end());
  };
  const auto add = [&](Index i, Bytes offset) {
    placed.add(problem.first(i), problem.last(i), {offset, offset + problem.size(i)});
  };
  CHECK(taken(4).empty());
  add(0, 0);
  add(1, 4);
  add(2, 10);
  CHECK(taken(4) == (std::vector<ByteRange>{{0, 8}, {10, 14}}));
  CHECK(taken(3) == (std::vector<ByteRange>{{0, 8}}));
  CHECK(taken(2) == (std::vector<ByteRange>{{4, 8}, {10, 14}}));
  CHECK(taken(0) == (std::vector<ByteRange>{{0, 8}}));
  add(4, 8);
  CHECK(taken(0) == (std::vector<ByteRange>{{0, 9}}));
}

}  // namespace

int main() {
  columns_are_checked();
  a_copy_outlives_its_source();
  load_is_a_staircase();
  occupancy_joins_what_touches();
  return check::finish();
}
