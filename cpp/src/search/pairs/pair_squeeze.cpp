#include "search/pairs/pair_squeeze.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "memplan/plan.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kFirstNodes = 256;
constexpr std::int64_t kMostNodes = std::int64_t{1} << 40;
constexpr Bytes kPerBuffer = 32;  // work, to know what a pair of buffers forbids

// What every peak is a multiple of: every offset is a sum of sizes and of ends of parts, rounded up to alignments.
Bytes common_divisor(const Problem& problem) {
  Bytes divisor = 0;
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size(i) == 0) continue;
    divisor = std::gcd(divisor, problem.size(i));
    if (problem.alignment(i) > 1) divisor = std::gcd(divisor, problem.alignment(i));
    for (const Part& part : problem.parts(i)) divisor = std::gcd(divisor, std::gcd(part.begin, part.end));
  }
  return std::max<Bytes>(1, divisor);
}

}  // namespace

struct PairSqueeze::Part {
  Part(const Problem& problem, std::vector<Index> of, Bytes bound, const Deadline& deadline)
      : buffers(std::move(of)), lower_bound(bound) {
    if (buffers.size() <= kMostInPart) pairs.emplace(problem, buffers, bound, deadline);
  }

  bool is_exact() const { return pairs && pairs->count() <= kMostItems; }

  std::vector<Index> buffers;
  std::optional<Pairs> pairs;  // none where they are too many
  std::unique_ptr<PairSearch> search;
  Bytes lower_bound;  // no plan of the whole peaks below, as far as this part goes
  Bytes peak = kMaxBytes;
  std::int64_t nodes = kFirstNodes;
  std::int64_t runs = 0;
};

PairSqueeze::PairSqueeze(const Problem& problem, Bytes bound, std::uint64_t seed, const Deadline& deadline)
    : problem_(problem), bound_(bound), step_(common_divisor(problem)) {
  if (const Bytes excess = bound_ % step_; excess > 0) bound_ += step_ - excess;
  std::vector<Clique> cliques;
  bool any = false;
  for (std::vector<Index>& buffers : connected_parts(problem, deadline)) {
    work_ += kPerBuffer * static_cast<std::int64_t>(buffers.size() * buffers.size());
    parts_.push_back(std::make_unique<Part>(problem, std::move(buffers), bound_, deadline));
    any |= parts_.back()->is_exact();
  }
  if (any) cliques = some_cliques(problem);
  for (const auto& part : parts_)
    if (part->is_exact()) part->search = std::make_unique<PairSearch>(problem, *part->pairs, cliques, seed);
}

PairSqueeze::~PairSqueeze() = default;

Bytes PairSqueeze::peak_of(const Part& part, std::span<const Bytes> offsets) const {
  Bytes peak = 0;
  for (const Index i : part.buffers) peak = std::max(peak, offsets[at(i)] + problem_.size(i));
  return peak;
}

bool PairSqueeze::step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) {
  if (offsets_.empty()) offsets_.assign(best.offsets.begin(), best.offsets.end());
  for (const auto& part : parts_) {
    const Bytes peak = peak_of(*part, best.offsets);
    if (peak >= part->peak) continue;
    part->peak = peak;
    for (const Index i : part->buffers) offsets_[at(i)] = best.offsets[at(i)];
  }
  const std::int64_t end = end_of_work(work_, work);
  while (work_ < end && !deadline.passed()) {
    Part* const part = next(enough);
    if (part == nullptr) break;
    run(*part, enough, end - work_, deadline);
  }
  return memplan::peak_of(problem_, offsets_) < best.peak;
}

// The part that peaks highest, of those that may peak lower; none where all are low enough.
PairSqueeze::Part* PairSqueeze::next(Bytes enough) {
  Part* highest = nullptr;
  Bytes proven = enough;  // what another part needs need not be undercut
  for (const auto& part : parts_) proven = std::max(proven, part->lower_bound);
  for (const auto& part : parts_)
    if (part->search && part->peak > proven && (highest == nullptr || part->peak > highest->peak)) highest = part.get();
  return highest;
}

void PairSqueeze::run(Part& part, Bytes enough, std::int64_t work, const Deadline& deadline) {
  const Bytes least = std::max(part.lower_bound, enough / step_ * step_);
  const Bytes gap = (part.peak - 1 - least) / step_;  // in steps: the highest target
  const Bytes target = part.runs++ % 2 == 0 || enough > part.lower_bound ? least : least + gap / 2 * step_;
  const std::int64_t before = part.search->work();
  const auto outcome = part.search->run(target, {part.nodes, end_of_work(before, work), deadline});
  work_ += part.search->work() - before + 1;
  if (outcome == Decision::infeasible) {
    part.lower_bound = std::max(part.lower_bound, target + step_);
  } else if (outcome == Decision::undecided) {
    part.nodes = std::min(2 * part.nodes, kMostNodes);
  } else {
    const Pairs& pairs = *part.pairs;
    for (Index i = 0; i < pairs.count(); ++i) offsets_[at(pairs.buffer(i))] = part.search->offsets()[at(i)];
    pairs.complete(offsets_);
    part.peak = peak_of(part, offsets_);
  }
}

Bytes PairSqueeze::lower_bound() const {
  Bytes bound = bound_;
  for (const auto& part : parts_) bound = std::max(bound, part->lower_bound);
  return bound;
}

bool PairSqueeze::is_exact() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->is_exact(); });
}

bool PairSqueeze::is_done(Bytes peak) const {
  const Bytes bound = lower_bound();
  if (bound >= peak) return true;
  return std::all_of(parts_.begin(), parts_.end(),
                     [&](const auto& part) { return !part->search || part->peak <= bound; });
}

}  // namespace memplan
