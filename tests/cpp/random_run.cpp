// Random problems and graphs through every planner, against plain checks written here. Bounded: the first argument
// is the number of rounds, 2000 by default.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/registry.hpp"
#include "memplan/replay.hpp"
#include "memplan/solve.hpp"
#include "memplan/verify.hpp"

using namespace memplan;

namespace {

std::mt19937_64 generator(20240607);

int below(int limit) { return static_cast<int>(generator() % static_cast<std::uint64_t>(limit)); }

Problem random_problem() {
  const int n = below(40);
  const int steps = 1 + below(30);
  const int most = 1 << below(12);
  const Bytes scale = below(4) ? 1 : Bytes{1} << 44;  // sums near 2^62
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  for (int i = 0; i < n; ++i) {
    size.push_back(below(most) * scale);
    first.push_back(below(steps) - steps / 2);
    last.push_back(first.back() + 1 + below(steps));
    alignment.push_back(below(2) ? 1 : below(4) ? 1 + below(64) : Bytes{1} << below(21));
  }
  return Problem(size, first, last, alignment);
}

// The pairs that share bytes while both are alive, by looking at all of them.
std::size_t overlaps(const Problem& p, const std::vector<Bytes>& offsets) {
  std::size_t pairs = 0;
  for (Index a = 0; a < p.count(); ++a)
    for (Index b = 0; b < a; ++b) {
      const Bytes oa = offsets[static_cast<std::size_t>(a)], ob = offsets[static_cast<std::size_t>(b)];
      const bool in_time = p.first(a) < p.last(b) && p.first(b) < p.last(a);
      pairs += in_time && std::max(oa, ob) < std::min(oa + p.size(a), ob + p.size(b));
    }
  return pairs;
}

void check_planners(const Problem& problem) {
  PlanOptions options;
  options.time_limit = 0.02;  // the exact ones would search on
  for (const PlannerInfo& planner : planners()) {
    const Plan plan = solve(problem, planner.name, options);
    CHECK(overlaps(problem, plan.offsets) == 0);
    CHECK(plan.peak >= load(problem));
    for (Index i = 0; i < problem.count(); ++i)
      CHECK(plan.offsets[static_cast<std::size_t>(i)] % problem.alignment(i) == 0);
  }
}

void check_verify(const Problem& problem) {
  std::vector<Bytes> offsets;
  for (Index i = 0; i < problem.count(); ++i) offsets.push_back(problem.alignment(i) * below(20));
  CHECK(verify(problem, offsets).size() == overlaps(problem, offsets));
}

std::string name(const char* prefix, int i) { return prefix + std::to_string(i); }

// Each op reads some earlier tensors and writes one or two; some outputs are views of an input.
GraphSpec random_graph() {
  GraphSpec spec;
  const int inputs = 1 + below(3);
  for (int i = 0; i < inputs; ++i)
    spec.tensors.push_back({name("x", i), below(50), below(2) ? TensorKind::input : TensorKind::weight});
  const int ops = below(20);
  for (int k = 0; k < ops; ++k) {
    OpSpec op;
    op.name = name("op", k);
    const int reads = 1 + below(3);
    for (int r = 0; r < reads; ++r)
      op.inputs.push_back(spec.tensors[static_cast<std::size_t>(below(static_cast<int>(spec.tensors.size())))].name);
    const int writes = 1 + below(2);
    for (int w = 0; w < writes; ++w) {
      Tensor tensor{name("t", k) + name("_", w), below(50)};
      if (w == 0 && below(3) == 0) {
        const auto input = std::find_if(spec.tensors.begin(), spec.tensors.end(),
                                        [&](const Tensor& t) { return t.name == op.inputs[0]; });
        tensor.bytes = below(static_cast<int>(input->bytes) + 1);
        op.aliases.push_back({tensor.name, input->name, below(static_cast<int>(input->bytes - tensor.bytes) + 1)});
      }
      op.outputs.push_back(tensor.name);
      spec.tensors.push_back(tensor);
    }
    op.workspace = below(3) ? 0 : below(30);
    spec.ops.push_back(std::move(op));
  }
  for (const Tensor& tensor : spec.tensors)
    if (below(6) == 0) spec.outputs.push_back(tensor.name);
  return spec;
}

void check_graph() {
  const Graph graph(random_graph());
  Place place;
  if (below(2)) place.add(TensorKind::input);
  if (below(2)) place.add(TensorKind::weight);
  const auto table = planners();
  const PlannerInfo& planner = table[static_cast<std::size_t>(below(static_cast<int>(table.size())))];
  const GraphPlan result = solve(graph, planner.name, place, 1 + below(16));  // verifies and replays, or throws
  CHECK(verify(result.buffers.problem, result.plan.offsets, result.plan.peak).empty());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  for (int round = 0; round < rounds; ++round) {
    const Problem problem = random_problem();
    check_planners(problem);
    check_verify(problem);
    check_graph();
  }
  return check::finish();
}
