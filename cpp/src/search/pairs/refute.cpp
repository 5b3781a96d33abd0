#include "memplan/refute.hpp"

#include <algorithm>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "problem/ground.hpp"
#include "problem/reduction.hpp"
#include "search/pairs/pair_search.hpp"
#include "search/pairs/pair_squeeze.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kNodesOfFirstRun = 256;  // of twice as many each time: runs learn where they die

// Proofs of what the search is given, which has neither pins nor distances. They name the ground, which comes last, if
// there is one.
Refutation by_clique(const Clique& clique) {
  Refutation proof;
  proof.nodes.push_back({kNone, kNone, kNone, 0, clique.members});
  for (const CliqueMember& member : clique.members)
    if (proof.buffers.empty() || proof.buffers.back() != member.buffer) proof.buffers.push_back(member.buffer);
  return proof;
}

Refutation written_down(const Pairs& pairs, const PairSearch& search, const ProofTree& tree) {
  Refutation proof;
  for (Index i = 0; i < pairs.count(); ++i) proof.buffers.push_back(pairs.buffer(i));
  for (const auto& [i, j] : search.ordered()) proof.ordered.emplace_back(pairs.buffer(i), pairs.buffer(j));
  proof.nodes = tree.nodes();
  return proof;
}

// Calls the buffers of a proof by other names.
template <class Name>
void rename(Refutation& proof, Name name) {
  const auto renamed = [&](Index& buffer) {
    if (buffer != kNone) buffer = name(buffer);
  };
  for (Index& buffer : proof.buffers) renamed(buffer);
  for (auto& [lower, upper] : proof.ordered) renamed(lower), renamed(upper);
  for (RefutationNode& node : proof.nodes) {
    renamed(node.lower);
    renamed(node.upper);
    for (CliqueMember& member : node.clique) renamed(member.buffer);
  }
}

class Prover {
 public:
  // `ground`: what is fixed, or kNone.
  Prover(const Problem& problem, Index ground, Bytes capacity, std::int64_t work, const PlanOptions& options)
      : problem_(problem), ground_(ground), capacity_(capacity), work_(work), options_(options), deadline_(options) {}

  std::optional<Refutation> proof() {
    const Clique heaviest = heaviest_clique(problem_, options_);
    if (heaviest.bytes > capacity_) return by_clique(heaviest);
    if (problem_.count() > PairSqueeze::kMostBuffers || capacity_ > PairSqueeze::kMostBytes) return std::nullopt;
    cliques_ = some_cliques(problem_, options_);
    cliques_.push_back(heaviest);
    std::vector<std::vector<Index>> parts = connected_parts(problem_, deadline_, ground_);
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const std::vector<Index>& part : parts)
      if (auto found = of_part(part)) return found;
    return std::nullopt;
  }

 private:
  std::optional<Refutation> of_part(const std::vector<Index>& part) {
    if (part.size() > PairSqueeze::kMostInPart) return std::nullopt;
    const Pairs pairs(problem_, part, capacity_, deadline_);
    if (pairs.count() > PairSqueeze::kMostItems) return std::nullopt;
    ProofTree tree;
    PairSearch search(problem_, pairs, cliques_, options_.seed, &tree);
    for (std::int64_t nodes = kNodesOfFirstRun; search.work() < work_ && !tree.is_full(); nodes *= 2) {
      const auto outcome = search.run(capacity_, {nodes, work_, deadline_});
      if (outcome == Decision::infeasible) return written_down(pairs, search, tree);
      if (outcome == Decision::found) break;
    }
    work_ -= search.work();
    return std::nullopt;
  }

  const Problem& problem_;
  const Index ground_;
  const Bytes capacity_;
  std::int64_t work_;
  const PlanOptions& options_;
  const Deadline deadline_;
  std::vector<Clique> cliques_;
};

// Of a problem in which nothing lies together.
std::optional<Refutation> prove(const Problem& problem, Bytes capacity, std::int64_t work, const PlanOptions& options) {
  if (!problem.has_pins() && problem.reserved().empty()) return Prover(problem, kNone, capacity, work, options).proof();
  if (end_of_pins(problem) > capacity) return Refutation{{problem.count()}, {}, {{}}};
  const Ground ground(problem);
  const Problem free = ground.at(capacity);
  const auto count = static_cast<Index>(ground.free().size());
  auto proof = Prover(free, free.count() > count ? count : kNone, capacity, work, options).proof();
  if (proof) rename(*proof, [&](Index i) { return i == count ? problem.count() : ground.free()[at(i)]; });
  return proof;
}

}  // namespace

std::optional<Refutation> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                 const PlanOptions& options) {
  if (problem.has_branches()) throw UnsupportedError("refute does not support branches, which this problem asks for");
  try {
    const Reduction reduction(problem, Reduction::LowBytes::kKept);
    const Index items = reduction.problem().count();
    auto proof = prove(reduction.problem(), capacity, work, options);
    if (proof) rename(*proof, [&](Index i) { return i == items ? problem.count() : reduction.first_of(i); });
    return proof;
  } catch (const EndedError&) {
    return std::nullopt;
  }
}

}  // namespace memplan
