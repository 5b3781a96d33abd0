#include <optional>

#include "bindings.hpp"
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

}  // namespace

void bind_refute(py::module_& m) {
  m.def("refute", &refute_problem, py::arg("problem"), py::arg("capacity"), py::arg("work"),
        "A proof that no plan fits: (buffers, ordered pairs of them, nodes), a node being (parent, lower, upper,\n"
        "difference, clique as (buffer, begin, end)), -1 for none. Or None. The GIL is released; Ctrl-C ends it.");
}

}  // namespace memplan::bindings
