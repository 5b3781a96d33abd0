#include "memplan/refute_pairs.hpp"

#include <algorithm>

#include "memplan/errors.hpp"
#include "search/pair_search.hpp"
#include "search/pair_squeeze.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kNodesOfFirstRun = 256;  // of twice as many each time: runs learn where they die

PairRefutation by_clique(const Clique& clique) {
  PairRefutation proof;
  proof.nodes.push_back({kNone, kNone, kNone, 0, clique.members});
  for (const CliqueMember& member : clique.members)
    if (proof.buffers.empty() || proof.buffers.back() != member.buffer) proof.buffers.push_back(member.buffer);
  return proof;
}

PairRefutation written_down(const Pairs& pairs, const PairSearch& search, const PairRecord& record) {
  PairRefutation proof;
  for (Index i = 0; i < pairs.count(); ++i) proof.buffers.push_back(pairs.buffer(i));
  for (const auto& [i, j] : search.ordered()) proof.ordered.emplace_back(pairs.buffer(i), pairs.buffer(j));
  const auto buffer = [&](Index item) { return item == kNone ? kNone : pairs.buffer(item); };
  for (const PairRecord::Node& node : record.nodes())
    proof.nodes.push_back({node.parent, buffer(node.lower), buffer(node.upper), node.difference, node.clique});
  return proof;
}

class PairProver {
 public:
  PairProver(const Problem& problem, Bytes capacity, std::int64_t work, const PlanOptions& options)
      : problem_(problem), capacity_(capacity), work_(work), options_(options), deadline_(options) {}

  std::optional<PairRefutation> proof() {
    const Clique heaviest = heaviest_clique(problem_, options_);
    if (heaviest.bytes > capacity_) return by_clique(heaviest);
    if (problem_.count() > PairSqueeze::kMostBuffers || capacity_ > PairSqueeze::kMostBytes) return std::nullopt;
    cliques_ = some_cliques(problem_, options_);
    cliques_.push_back(heaviest);
    std::vector<std::vector<Index>> parts = connected_parts(problem_, deadline_);
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const std::vector<Index>& part : parts)
      if (auto found = of_part(part)) return found;
    return std::nullopt;
  }

 private:
  std::optional<PairRefutation> of_part(const std::vector<Index>& part) {
    if (part.size() > PairSqueeze::kMostInPart) return std::nullopt;
    const Pairs pairs(problem_, part, capacity_, deadline_);
    if (pairs.count() > PairSqueeze::kMostItems) return std::nullopt;
    PairRecord record;
    PairSearch search(problem_, pairs, cliques_, options_.seed, &record);
    for (std::int64_t nodes = kNodesOfFirstRun; search.work() < work_ && !record.is_full(); nodes *= 2) {
      const auto outcome = search.run(capacity_, nodes, work_, deadline_);
      if (outcome == PairSearch::Outcome::infeasible) return written_down(pairs, search, record);
      if (outcome == PairSearch::Outcome::found) break;
    }
    work_ -= search.work();
    return std::nullopt;
  }

  const Problem& problem_;
  const Bytes capacity_;
  std::int64_t work_;
  const PlanOptions& options_;
  const Deadline deadline_;
  std::vector<Clique> cliques_;
};

}  // namespace

std::optional<PairRefutation> refute_pairs(const Problem& problem, Bytes capacity, std::int64_t work,
                                           const PlanOptions& options) {
  const unsigned refused = features_of(problem) & (kPins | kReserved | kBranches);
  if (refused != 0)
    throw UnsupportedError("refute does not support " + std::string(feature_names(refused).front()) +
                           ", which this problem asks for");
  try {
    return PairProver(problem, capacity, work, options).proof();
  } catch (const EndedError&) {
    return std::nullopt;
  }
}

}  // namespace memplan
