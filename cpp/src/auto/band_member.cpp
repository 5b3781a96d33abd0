#include "auto/band_member.hpp"

#include <algorithm>
#include <numeric>

#include "memplan/clique.hpp"
#include "memplan/errors.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kFirstBandSlice = 250'000;
constexpr std::int64_t kLastBandSlice = 16'000'000;
constexpr std::int64_t kCliqueWorkOfBand = kCliqueWork / 100;
constexpr std::int64_t kPerRound = 1000;  // work of a round that ends at once

bool all_aligned_alike(const Problem& problem) {
  const std::vector<Index> buffers = with_bytes(problem);
  return std::all_of(buffers.begin(), buffers.end(),
                     [&](Index i) { return problem.alignment(i) == problem.alignment(buffers.front()); });
}

}  // namespace

Bytes bound_of_band(const Problem& band, const PlanOptions& options, const Deadline& deadline) {
  return heaviest_clique(band, options_within(options, deadline), kCliqueWorkOfBand).bytes;
}

BandMember::BandMember(const Problem& problem, std::vector<Band> bands, Bands are, std::uint64_t seed,
                       const MakeRounds& make)
    : problem_(problem),
      are_(are),
      proves_(are == Bands::separate || (are == Bands::joined && all_aligned_alike(problem))) {
  slices_.assign(bands.size(), kFirstBandSlice);
  parts_.reserve(bands.size());
  for (Band& band : bands) {
    Bytes alignment = 1;
    for (const Bytes one : band.problem.alignment()) alignment = std::lcm(alignment, one);
    parts_.push_back({std::move(band), nullptr, alignment});
    parts_.back().rounds = make(parts_.back().band.problem, seed);
  }
}

bool BandMember::step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) {
  saved_ += work;
  try {
    while (saved_ > 0 && !deadline.passed() && !(has_plan() && peak() <= enough)) {
      const Part* const part = next();
      if (part == nullptr) break;
      const std::int64_t before = part->rounds->work();
      std::int64_t& slice = slices_[at(part - parts_.data())];
      part->rounds->round(slice, deadline);
      slice = std::min(2 * slice, kLastBandSlice);
      saved_ -= part->rounds->work() - before + kPerRound;
    }
  } catch (const EndedError&) {
  }
  return has_plan() && peak() < best.peak;
}

// One without a plan, or else that with the largest gap: of separate ones, above what is proven of any.
const BandMember::Part* BandMember::next() const {
  const Part* widest = nullptr;
  Bytes most = 0;
  for (const Part& part : parts_)
    if (!part.rounds->has_plan()) return &part;
  const Bytes proven = are_ == Bands::separate ? lower_bound() : 0;
  for (const Part& part : parts_) {
    const Bytes gap = part.rounds->peak() - std::max(proven, part.rounds->lower_bound());
    if (part.rounds->is_done() || gap <= most) continue;
    most = gap;
    widest = &part;
  }
  return widest;
}

bool BandMember::has_plan() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.rounds->has_plan(); });
}

// Where each band begins. The one that needs most bytes to a multiple of its alignment comes last: nothing lies on it.
std::vector<Bytes> BandMember::bases() const {
  if (are_ == Bands::separate) return std::vector<Bytes>(parts_.size(), 0);
  std::vector<std::size_t> order(parts_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto padding = [&](std::size_t k) {
    const Bytes peak = parts_[k].rounds->peak();
    return align_up(peak, parts_[k].alignment) - peak;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return parts_[a].alignment != parts_[b].alignment ? parts_[a].alignment > parts_[b].alignment
                                                      : padding(a) < padding(b);
  });
  std::vector<Bytes> bases(parts_.size());
  Bytes top = 0;
  for (const std::size_t k : order) {
    bases[k] = align_up(top, parts_[k].alignment);
    top = bases[k] + parts_[k].rounds->peak();
  }
  return bases;
}

Bytes BandMember::peak() const {
  const std::vector<Bytes> at_bytes = bases();
  Bytes peak = 0;
  for (std::size_t k = 0; k < parts_.size(); ++k) peak = std::max(peak, at_bytes[k] + parts_[k].rounds->peak());
  return peak;
}

std::vector<Bytes> BandMember::offsets() const {
  const std::vector<Bytes> at_bytes = bases();
  std::vector<Bytes> offsets(problem_.size().size(), 0);
  for (std::size_t k = 0; k < parts_.size(); ++k)
    for (std::size_t b = 0; b < parts_[k].band.buffers.size(); ++b)
      offsets[at(parts_[k].band.buffers[b])] = at_bytes[k] + parts_[k].rounds->offsets()[b];
  return offsets;
}

// Whatever the plan, one band holds its top. There it needs as much as alone, and each other one a multiple of the
// alignment more.
Bytes BandMember::lower_bound() const {
  if (!proves_ || !has_plan()) return 0;
  Bytes bound = 0, most_padding = 0;
  for (const Part& part : parts_) {
    const Bytes alone = part.rounds->lower_bound(), padded = align_up(alone, part.alignment);
    if (are_ == Bands::separate) {
      bound = std::max(bound, alone);
      continue;
    }
    bound += padded;
    most_padding = std::max(most_padding, padded - alone);
  }
  return bound - most_padding;
}

bool BandMember::is_done(Bytes peak) const {
  if (lower_bound() >= peak) return true;
  return has_plan() && next() == nullptr;
}

std::int64_t BandMember::work() const {
  std::int64_t work = 0;
  for (const Part& part : parts_) work += part.rounds->work();
  return work;
}

}  // namespace memplan
