// A split without names is the same graph, and a graph by index is checked as one by name.
#include <algorithm>

#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/split.hpp"

using namespace memplan;
using Kind = TensorKind;

namespace {

// x (8 rows) -> conv of 3 rows -> t -> relu, in place -> u -> reshape -> v -> gemm with w, workspace 16 -> y;
// after it, x -> z
Graph network() {
  const auto shape = [](std::vector<std::int64_t> sides) { return std::optional(std::move(sides)); };
  GraphSpec spec;
  spec.tensors = {
      {"x", 32, Kind::input, shape({8, 4}), "uint8"},           {"w", 4, Kind::weight, shape({4}), "uint8"},
      {"t", 64, Kind::intermediate, shape({8, 8}), "uint8"},    {"u", 64, Kind::intermediate, shape({8, 8}), "uint8"},
      {"v", 64, Kind::intermediate, shape({8, 2, 4}), "uint8"}, {"y", 16, Kind::output, shape({8, 2}), "uint8"},
      {"z", 32, Kind::output, shape({8, 4}), "uint8"}};
  spec.ops.resize(4);
  spec.ops[0] = {"conv", "Conv", {"x"}, {"t"}};
  spec.ops[0].loops = {{8, {{0, {0, 0}, 1, 3, 1}}, {{0, {0, 0}}}}};
  spec.ops[1] = {"relu", "Relu", {"t"}, {"u"}};
  spec.ops[1].inplace = {{"u", "t", 0}};
  spec.ops[1].loops = {{8, {{0, {0, 0}}}, {{0, {0, 0}}}}};
  spec.ops[2] = {"reshape", "Reshape", {"u"}, {"v"}};
  spec.ops[2].aliases = {{"v", "u", 0}};
  spec.ops[2].loops = {{8, {{0, {0, 0}}}, {{0, {0, 0}}}}};
  spec.ops[3] = {"gemm", "Gemm", {"v", "w"}, {"y"}, 16};
  spec.ops[3].loops = {{8, {{0, {0, 0}, 1, 3, 1}}, {{0, {0, 0}}}}};
  spec.ops.push_back({"other", "Relu", {"x"}, {"z"}});
  spec.ops[4].after = {"gemm"};
  spec.outputs = {"y"};
  return Graph(std::move(spec));
}

std::vector<Region> regions(Index pieces, bool again) {
  return {{{{0, 0, false}, {1, 0, again}, {2, 0, false}, {3, 0, false}}, pieces}};
}

void names_make_no_difference() {
  const Graph graph = network();
  for (const Index pieces : {2, 3, 8})
    for (const bool again : {false, true}) {
      const SplitGraph named = split(graph, regions(pieces, again)),
                       other = split_unnamed(graph, regions(pieces, again));
      CHECK(named.graph.named() && !other.graph.named());
      CHECK(named.graph.op_count() == other.graph.op_count() && named.tensor_of == other.tensor_of);
      CHECK(named.kept_bytes == other.kept_bytes);
      for (Index k = 0; k < named.graph.op_count(); ++k) {
        const Op &one = named.graph.op(k), &two = other.graph.op(k);
        CHECK(one.inputs == two.inputs && one.outputs == two.outputs && one.after == two.after);
        CHECK(one.aliases == two.aliases && one.inplace == two.inplace && one.overwrites == two.overwrites);
        CHECK(one.workspace == two.workspace && one.cost == two.cost);
      }
      CHECK(named.graph.outputs() == other.graph.outputs());
      const Problem one = buffers_of(named.graph, {}).problem, two = buffers_of(other.graph, {}).problem;
      CHECK(load(one) == load(two));
      CHECK(std::ranges::equal(one.size(), two.size()) && std::ranges::equal(one.first(), two.first()));
      CHECK(pieces < 8 || load(one) < load(buffers_of(graph, {}).problem));
    }
}

void names_are_checked() {
  GraphParts parts;
  parts.tensors = {{"x", 4, Kind::input}, {"x", 4}};
  THROWS(Graph(parts), GraphError, "two tensors are named 'x'");
  parts.tensors[1].name = "y";
  Op op;
  op.inputs = {0};
  op.outputs = {1};
  parts.ops = {op};
  THROWS(Graph(parts), GraphError, "op 0 has an empty name");
  parts.ops[0].name = "a";
  parts.outputs = {1};
  CHECK(Graph(parts).tensor(1).kind == Kind::output);
  parts.ops.push_back(parts.ops[0]);
  parts.ops[1].name = "b";
  THROWS(Graph(parts), GraphError, "'y'");  // is written twice
}

}  // namespace

int main() {
  names_make_no_difference();
  names_are_checked();
  return check::finish();
}
