#include <optional>

#include "bindings.hpp"
#include "memplan/refute.hpp"
#include "memplan/refute_pairs.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using NodeTuple = std::tuple<Index, Index, Bytes, Step>;
using MemberTuple = std::tuple<Index, Bytes, Bytes>;
using PairNodeTuple = std::tuple<Index, Index, Index, Bytes, std::vector<MemberTuple>>;
using PairProofTuple = std::tuple<std::vector<Index>, std::vector<std::pair<Index, Index>>, std::vector<PairNodeTuple>>;

std::optional<std::vector<NodeTuple>> refute_problem(const Problem& problem, Bytes capacity, std::int64_t work) {
  const auto nodes =
      interruptibly([&](const PlanOptions& options) { return refute(problem, capacity, work, options); });
  if (!nodes) return std::nullopt;
  std::vector<NodeTuple> tuples;
  tuples.reserve(nodes->size());
  for (const RefutationNode& node : *nodes) tuples.emplace_back(node.parent, node.buffer, node.height, node.step);
  return tuples;
}

std::optional<PairProofTuple> refute_pairs_of(const Problem& problem, Bytes capacity, std::int64_t work) {
  const auto proof =
      interruptibly([&](const PlanOptions& options) { return refute_pairs(problem, capacity, work, options); });
  if (!proof) return std::nullopt;
  std::vector<PairNodeTuple> tuples;
  tuples.reserve(proof->nodes.size());
  for (const PairRefutationNode& node : proof->nodes) {
    std::vector<MemberTuple> clique;
    for (const CliqueMember& member : node.clique) clique.emplace_back(member.buffer, member.begin, member.end);
    tuples.emplace_back(node.parent, node.lower, node.upper, node.difference, std::move(clique));
  }
  return PairProofTuple{proof->buffers, proof->ordered, std::move(tuples)};
}

}  // namespace

void bind_refute(py::module_& m) {
  m.def("refute", &refute_problem, py::arg("problem"), py::arg("capacity"), py::arg("work"),
        "The nodes (parent, buffer, height, step) of a proof that no plan fits, -1 for none; or None. The GIL is\n"
        "released; Ctrl-C ends the search.");
  m.def("refute_pairs", &refute_pairs_of, py::arg("problem"), py::arg("capacity"), py::arg("work"),
        "The same by pairs, for every problem: (buffers, ordered pairs of them, nodes), a node being (parent, lower,\n"
        "upper, difference, clique as (buffer, begin, end)).");
}

}  // namespace memplan::bindings
