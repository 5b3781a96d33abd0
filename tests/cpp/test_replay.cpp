// The replay catches plans that destroy a value before it is read.
#include "check.hpp"
#include "memplan/errors.hpp"
#include "memplan/replay.hpp"

using namespace memplan;
using Kind = TensorKind;

namespace {

// x (given) -> a -> t -> view v -> b (workspace 4) -> y; w is a weight
Graph graph() {
  GraphSpec spec;
  spec.tensors = {{"x", 4, Kind::input}, {"w", 4, Kind::weight}, {"t", 8}, {"v", 4}, {"y", 4}};
  spec.ops.resize(3);
  spec.ops[0] = {"a", "", {"x", "w"}, {"t"}};
  spec.ops[1] = {"view", "", {"t"}, {"v"}, 0, {{"v", "t", 4}}};
  spec.ops[2] = {"b", "", {"v"}, {"y"}, 4};
  spec.outputs = {"y"};
  return Graph(std::move(spec));
}

constexpr Bytes kNo = kNotPlaced;

std::vector<ReplayFault> run(std::vector<Bytes> tensors, std::vector<Bytes> workspaces, std::size_t limit = 100) {
  return replay(graph(), {std::move(tensors), std::move(workspaces)}, {limit});
}

void good_plans_pass() {
  CHECK(run({kNo, kNo, 0, 4, 8}, {kNo, kNo, 12}).empty());
  CHECK(run({kNo, kNo, 0, 4, 0}, {kNo, kNo, 8}).empty());  // y over the half of t that v does not show
  CHECK(run({8, 12, 0, 4, 0}, {kNo, kNo, 8}).empty());     // x is dead when b runs, w stays
}

void faults_are_found() {
  const auto on_input = run({kNo, kNo, 0, 4, 4}, {kNo, kNo, 8});  // y over v, which b reads
  CHECK(on_input.size() == 1);
  CHECK(on_input[0].message ==
        "op 'b' (step 2) writes while it reads tensor 'v' at offset 4, but bytes [4, 8) hold tensor 'y'");
  CHECK(run({kNo, kNo, 0, 2, 8}, {kNo, kNo, 12})[0].message.find("must be at offset 4 as a view") != std::string::npos);
  CHECK(run({kNo, kNo, 0, kNo, 8}, {kNo, kNo, 12}).size() == 1);
  CHECK(run({kNo, kNo, 0, 4, 8}, {kNo, kNo, 6}).size() >= 1);  // workspace over v
  CHECK(run({kNo, kNo, 0, 4, 8}, {kNo, kNo, 8}).size() >= 1);  // workspace under y
  CHECK(run({kNo, 12, 0, 4, 8}, {kNo, kNo, 12})[0].message.find("the next run needs tensor 'w'") != std::string::npos);
  CHECK(run({0, kNo, 0, 4, 8}, {kNo, kNo, 12})[0].op == 0);  // t over x while a reads x
}

void the_end_counts() {
  GraphSpec spec;
  spec.tensors = {{"x", 4, Kind::input}, {"y", 4}, {"z", 4}};
  spec.ops = {{"a", "", {"x"}, {"y"}}, {"b", "", {"x"}, {"z"}}};
  spec.outputs = {"y", "z"};
  const Graph two(std::move(spec));
  const auto faults = replay(two, {{kNo, 0, 0}, {kNo, kNo}});
  CHECK(faults.size() == 1 && faults[0].op == 2 && faults[0].tensor == 1);
}

void an_overwrite_replaces_on_purpose() {
  GraphSpec spec;
  spec.tensors = {{"x", 4, Kind::input}, {"t", 8}, {"z", 4}, {"y", 1}};
  spec.ops = {{"a", "", {"x"}, {"t"}}, {"set", "", {"t"}, {"z"}}, {"b", "", {"z"}, {"y"}}};
  spec.ops[1].overwrites = {{"z", "t", 4}};
  spec.outputs = {"y"};
  const Graph graph(std::move(spec));
  CHECK(replay(graph, {{kNo, 0, 4, 8}, {kNo, kNo, kNo}}).empty());
  CHECK(replay(graph, {{kNo, 0, 0, 8}, {kNo, kNo, kNo}}).size() == 1);
}

void a_permission_is_of_one_name() {
  GraphSpec spec;
  spec.tensors = {{"t", 4}, {"v", 4}, {"y", 4}};
  spec.ops = {{"a", "", {}, {"t"}}, {"view", "", {"t"}, {"v"}, 0, {{"v", "t"}}}, {"b", "", {"t", "v"}, {"y"}}};
  spec.ops[2].inplace = {{"y", "t"}};
  spec.outputs = {"y"};
  const auto faults = [&] { return replay(Graph(spec), {{0, 0, 0}, {kNo, kNo, kNo}}); };
  CHECK(faults().size() == 1 && faults()[0].op == 2 && faults()[0].tensor == 1);
  spec.ops[2].inplace.push_back({"y", "v"});
  CHECK(faults().empty());
}

void lengths_and_limits() {
  THROWS(run({0}, {kNo, kNo, kNo}), InvalidPlanError, "one entry per tensor: the graph has 5, got 1");
  THROWS(run({kNo, kNo, 0, 4, 8}, {}), InvalidPlanError, "one entry per op");
  CHECK(run({0, 0, 0, 4, 0}, {kNo, kNo, 0}, 1).size() == 1);
}

}  // namespace

int main() {
  good_plans_pass();
  faults_are_found();
  the_end_counts();
  an_overwrite_replaces_on_purpose();
  a_permission_is_of_one_name();
  lengths_and_limits();
  return check::finish();
}
