// Graphs, storages, lifetimes and the buffers that come of them.
#include <algorithm>

#include "check.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/liveness.hpp"
#include "memplan/storage.hpp"

using namespace memplan;
using Kind = TensorKind;

namespace {

OpSpec op(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  return spec;
}

// x -> a -> t -> view v (bytes 4..12 of t) -> b -> y, with a workspace of 7 bytes in b
GraphSpec chain() {
  GraphSpec spec;
  spec.tensors = {{"x", 10, Kind::input}, {"w", 3, Kind::weight}, {"t", 16}, {"v", 8}, {"y", 5}};
  spec.ops = {op("a", {"x", "w"}, {"t"}), op("view", {"t"}, {"v"}), op("b", {"v"}, {"y"})};
  spec.ops[1].aliases = {{"v", "t", 4}};
  spec.ops[2].workspace = 7;
  spec.outputs = {"y"};
  return spec;
}

std::vector<Lifetime> lives(const Graph& graph, const Storages& storages) {
  const HappensBefore order(graph);
  return lifetimes_of(graph, storages, order, op_steps_of(graph, order));
}

void lifetimes_follow_storages() {
  const Graph graph(chain());
  const Storages storages = storages_of(graph, HappensBefore(graph));
  CHECK(storages.storages.size() == 4);
  CHECK(storages.of(*graph.find("v")).root == *graph.find("t"));
  CHECK(storages.offset_of[at(*graph.find("v"))] == 4);
  const std::vector<Lifetime> lifetimes = lives(graph, storages);
  CHECK((lifetimes[0] == Lifetime{0, 1}));                   // x: read by op 0 alone
  CHECK((lifetimes[1] == Lifetime{0, 3}));                   // w: needed by the next run
  CHECK(lifetimes[2].first == 0 && lifetimes[2].last == 3);  // t: through its view v
  CHECK((lifetimes[2].strips == std::vector<Strip>{{0, 4, 0, 2}, {4, 12, 0, 3}, {12, 16, 0, 2}}));
  CHECK((lifetimes[3] == Lifetime{2, 3}));  // y: to the end
}

void all_bytes_are_counted_as_far_as_int64_holds_them() {
  GraphSpec spec = chain();
  CHECK(total_bytes(Graph(spec)) == 10 + 3 + 16 + 8 + 5 + 7);
  spec.ops[2].workspace = kMaxBytes - 42;
  CHECK(total_bytes(Graph(spec)) == kMaxBytes);
  spec.ops[2].workspace += 1;
  CHECK(!total_bytes(Graph(spec)));
}

void buffers_are_what_place_asks_for() {
  const Graph graph(chain());
  const Buffers usual = buffers_of(graph);
  CHECK(usual.problem.names() == (std::vector<std::string>{"t", "y", "b.workspace"}));
  CHECK(usual.buffer_of_tensor == (std::vector<Index>{kNone, kNone, 0, 0, 1}));
  CHECK(usual.buffer_of_workspace == (std::vector<Index>{kNone, kNone, 2}));
  const Buffers inputs = buffers_of(graph, {.place = Place({Kind::input, Kind::weight}), .alignment = 64});
  CHECK(inputs.problem.names() == (std::vector<std::string>{"x", "w"}));
  CHECK(inputs.problem.alignment(1) == 64);
  THROWS(buffers_of(graph, {.alignment = 0}), ProblemError, "alignment must be >= 1, got 0");
}

void a_graph_without_ops_has_one_step() {
  GraphSpec spec;
  spec.tensors = {{"x", 4, Kind::input}};
  spec.outputs = {"x"};
  const Graph graph(std::move(spec));
  CHECK((lives(graph, storages_of(graph, HappensBefore(graph)))[0] == Lifetime{0, 1}));
}

template <class Change>
GraphSpec changed(Change&& change) {
  GraphSpec spec = chain();
  change(spec);
  return spec;
}

void errors_name_op_and_tensor() {
  THROWS(Graph(changed([](auto& s) { s.tensors[2].bytes = -1; })), GraphError, "'t': bytes must be >= 0, got -1");
  THROWS(Graph(changed([](auto& s) { s.tensors[2].name = "x"; })), GraphError, "two tensors are named 'x'");
  THROWS(Graph(changed([](auto& s) { s.ops[2].name = "a"; })), GraphError, "two ops are named 'a'");
  THROWS(Graph(changed([](auto& s) { s.ops[0].inputs[0] = "q"; })), GraphError, "op 'a': input 'q' is not among");
  THROWS(Graph(changed([](auto& s) { s.outputs = {"q"}; })), GraphError, "graph output 'q'");
  THROWS(Graph(changed([](auto& s) { s.ops[2].outputs.push_back("t"); })), GraphError,
         "tensor 't' is written twice, by op 'a' and by op 'b'");
  THROWS(Graph(changed([](auto& s) { s.ops[2].outputs.push_back("w"); })), GraphError, "op 'b' writes tensor 'w'");
  THROWS(Graph(changed([](auto& s) { s.tensors.push_back({"u", 1}); })), GraphError,
         "'u' is an intermediate that no op");
  THROWS(Graph(changed([](auto& s) { std::swap(s.ops[0], s.ops[2]); })), GraphError,
         "must be listed in execution order");
  THROWS(Graph(changed([](auto& s) { s.ops[0].inputs.push_back("y"); })), GraphError, "the graph has a cycle");
  THROWS(Graph(changed([](auto& s) { s.ops[2].workspace = -5; })), GraphError, "op 'b': workspace must be >= 0");
  THROWS(Graph(changed([](auto& s) { s.ops[1].aliases[0].offset = 9; })), GraphError, "outside its 16 bytes");
  THROWS(Graph(changed([](auto& s) { s.ops[1].aliases[0].offset = -1; })), GraphError, "outside its 16 bytes");
  THROWS(Graph(changed([](auto& s) { s.ops[1].aliases[0].input = "x"; })), GraphError, "is not an input of that op");
  THROWS(tensor_kind("temp"), GraphError, "kind must be one of input, weight");
}

void overwritten_bytes_cannot_be_read_again() {
  GraphSpec spec;
  spec.tensors = {{"x", 4, Kind::input}, {"t", 8}, {"z", 4}, {"y", 1}, {"q", 1}};
  spec.ops = {op("a", {"x"}, {"t"}), op("set", {"t"}, {"z"}), op("b", {"z"}, {"y"}), op("c", {"z"}, {"q"})};
  spec.ops[1].overwrites = {{"z", "t", 4}};
  spec.outputs = {"y", "q"};
  GraphSpec stale = spec;
  stale.ops[3].inputs = {"t"};
  THROWS(Graph(std::move(stale)), GraphError, "op 'c' reads tensor 't' after op 'set' has overwritten its bytes");
  const Graph graph(std::move(spec));
  CHECK(storages_of(graph, HappensBefore(graph)).of(*graph.find("z")).root == *graph.find("t"));
}

void streams_side_by_side_conflict() {
  GraphSpec spec;  // b and c both read t, on two streams; d reads what b wrote
  spec.tensors = {{"x", 4, Kind::input}, {"t", 8}, {"u", 8}, {"v", 8}, {"y", 1}, {"z", 1}};
  spec.ops = {op("a", {"x"}, {"t"}), op("b", {"t"}, {"u"}), op("d", {"u"}, {"y"}), op("c", {"t"}, {"v"}),
              op("e", {"v"}, {"z"})};
  spec.ops[3].stream = spec.ops[4].stream = 1;
  spec.outputs = {"y", "z"};
  const Buffers buffers = buffers_of(Graph(spec));
  const auto buffer = [&](const std::string& name) {
    const auto& names = buffers.problem.names();
    return static_cast<Index>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  const Conflicts& conflicts = *buffers.problem.conflicts();
  CHECK(conflicts.contains(buffer("u"), buffer("v")));  // b and c run side by side
  CHECK(conflicts.contains(buffer("u"), buffer("z")));
  spec.ops[3].after = {"d"};
  const Buffers ordered = buffers_of(Graph(spec));
  CHECK(ordered.problem.conflicts() == nullptr);
}

}  // namespace

int main() {
  lifetimes_follow_storages();
  all_bytes_are_counted_as_far_as_int64_holds_them();
  buffers_are_what_place_asks_for();
  a_graph_without_ops_has_one_step();
  errors_name_op_and_tensor();
  overwritten_bytes_cannot_be_read_again();
  streams_side_by_side_conflict();
  return check::finish();
}
