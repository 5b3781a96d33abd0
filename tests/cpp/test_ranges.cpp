// One plan for several sizes: offsets as an order, what shares bytes at all sizes, and sizes that are not alike.
#include <string>
#include <vector>

#include "check.hpp"
#include "memplan/errors.hpp"
#include "memplan/ranges.hpp"

using namespace memplan;

namespace {

using Tensors = std::vector<Tensor>;

// make writes t; look gives another name v for its bytes; add may write y over either.
SizedGraph chain(Bytes n, const std::string& last = "y", bool inplace = true) {
  GraphSpec spec;
  spec.tensors = Tensors{{"t", 4 * n}, {"v", 4 * n}, {last, 4 * n}};
  OpSpec make{"make", "", {}, {"t"}}, look{"look", "", {"t"}, {"v"}}, add{"add", "", {"t", "v"}, {last}};
  look.aliases.push_back({"v", "t", 0});
  add.inplace.push_back({last, "v", 0});
  if (inplace) add.inplace.push_back({last, "t", 0});
  spec.ops = {make, look, add};
  spec.outputs = {last};
  return {"n=" + std::to_string(n), std::make_shared<const Graph>(std::move(spec))};
}

void sizes_share_bytes_alike() {
  const std::vector<SizedGraph> graphs{chain(1), chain(8)};
  const RangePlan range = solve_range(graphs);
  CHECK(range.found.plan.peak == 32 && range.found.buffers.shared.size() == 1);
  const SizePlan five = at_size(range, chain(5));
  CHECK(five.found.plan.peak == 20 && five.fixed == 20 && five.found.plan.optimal);
  THROWS(at_size(range, chain(9)), UnsupportedError, "larger or others");
}

// At one size, y may be over one name of the bytes alone, so over none: t is read under the other.
void what_may_not_share_bytes_at_one_size_does_at_none() {
  const std::vector<SizedGraph> graphs{chain(1, "y", false), chain(8)};
  const RangePlan range = solve_range(graphs);
  CHECK(range.found.buffers.shared.empty() && range.found.plan.peak == 64);
  CHECK(at_size(range, graphs[0]).found.plan.peak == 8);
}

void what_is_not_alike_is_named() {
  const std::vector<SizedGraph> graphs{chain(1, "z"), chain(4)};
  THROWS(solve_range(graphs), UnsupportedError, "other tensors at n=1 than at n=4, such as y, z");
  THROWS(solve_range({}), std::invalid_argument, "got none");
}

}  // namespace

int main() {
  sizes_share_bytes_alike();
  what_may_not_share_bytes_at_one_size_does_at_none();
  what_is_not_alike_is_named();
  return check::finish();
}
