#include <optional>

#include "bindings.hpp"
#include "memplan/obstruction.hpp"
#include "memplan/refute.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using MemberTuple = std::tuple<Index, Bytes, Bytes>;
using NodeTuple = std::tuple<Index, Index, Index, Bytes, std::vector<MemberTuple>>;
using ProofTuple = std::tuple<std::vector<Index>, std::vector<std::pair<Index, Index>>, std::vector<NodeTuple>>;

std::optional<ProofTuple> refute_problem(const Problem& problem, Bytes capacity, std::int64_t work) {
  const auto proof =
      interruptibly([&](const PlanOptions& options) { return refute(problem, capacity, work, options); });
  if (!proof) return std::nullopt;
  std::vector<NodeTuple> tuples;
  tuples.reserve(proof->nodes.size());
  for (const RefutationNode& node : proof->nodes) {
    std::vector<MemberTuple> clique;
    for (const CliqueMember& member : node.clique) clique.emplace_back(member.buffer, member.begin, member.end);
    tuples.emplace_back(node.parent, node.lower, node.upper, node.difference, std::move(clique));
  }
  return ProofTuple{proof->buffers, proof->ordered, std::move(tuples)};
}

using Indices = std::vector<Index>;
using ObstructionTuple = std::tuple<Indices, bool, Bytes, Bytes, Indices, Indices, Indices>;

std::optional<ObstructionTuple> obstruction_of(const Problem& problem, Bytes capacity, std::int64_t effort) {
  const auto found =
      interruptibly([&](const PlanOptions& options) { return obstruction(problem, capacity, effort, options); });
  if (!found) return std::nullopt;
  return ObstructionTuple{found->buffers, found->irreducible, found->lower_bound, found->peak,
                          found->without, found->unpinned,    found->unreserved};
}

}  // namespace

void bind_refute(py::module_& m) {
  m.def("refute", &refute_problem, py::arg("problem"), py::arg("capacity"), py::arg("work"),
        "A proof that no plan fits: (buffers, ordered pairs of them, nodes), a node being (parent, lower, upper,\n"
        "difference, clique as (buffer, begin, end)), -1 for none. Or None. The GIL is released; Ctrl-C ends it.");
  m.def("obstruction", &obstruction_of, py::arg("problem"), py::arg("capacity"), py::arg("effort"),
        "Buffers that cannot be placed together, or None: (buffers, irreducible, lower bound and peak of the whole,\n"
        "buffers, pins and rows of `reserved` of which each is enough to go). The GIL is released; Ctrl-C ends it.");
}

}  // namespace memplan::bindings
