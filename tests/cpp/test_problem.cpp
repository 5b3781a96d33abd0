// Problems, their bounds, and which buffers overlap.
#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/overlap.hpp"

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

void overlap_finds_marked_buffers_only() {
  const Problem problem({1, 1, 1, 1}, {0, 2, 4, 2}, {3, 5, 6, 3});
  OverlapIndex index(problem);
  const auto found = [&](Step first, Step last) {
    std::vector<Index> buffers;
    index.for_each_overlapping(first, last, [&](Index i) { buffers.push_back(i); });
    return buffers;
  };
  CHECK(found(0, 10).empty());
  for (Index i = 0; i < 4; ++i) index.mark(i);
  CHECK(found(0, 10) == (std::vector<Index>{0, 1, 3, 2}));
  CHECK(found(3, 4) == (std::vector<Index>{1}));
  CHECK(found(6, 9).empty());
  CHECK(found(-5, 0).empty());
}

}  // namespace

int main() {
  columns_are_checked();
  a_copy_outlives_its_source();
  load_is_a_staircase();
  overlap_finds_marked_buffers_only();
  return check::finish();
}
