#include "auto/portfolio_search.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <set>
#include <utility>

#include "auto/auto.hpp"
#include "auto/band_member.hpp"
#include "auto/between_peaks.hpp"
#include "auto/members.hpp"
#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "placing/in_order.hpp"
#include "planners/planners.hpp"
#include "search/wheel/window_repair.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kFirstSlice = 1'000'000;
constexpr std::int64_t kLastSlice = 64'000'000;
constexpr std::int64_t kInexactEffort = 200'000;  // per buffer, where nothing but the load can prove an optimum
constexpr std::int64_t kShortLife = 64;           // sections, by a buffer: then a dive costs little
constexpr std::int64_t kPerSection = 4;           // work of a dive
constexpr Bytes kBandsNear = 50;                  // bands that need one in so many bytes more have no plan worth it
constexpr Bytes kMostAlignment = 1 << 20;         // of buffers in bands: multiples are small
constexpr std::int64_t kMending = 100;            // buffers looked at, per buffer, before members search
constexpr Index kMostExchanged = 100'000;         // buffers; more take seconds
constexpr int kMostLag = 3;

// Rows often come in an order that says something: that of a program, or of who cut them.
Placement as_given(const Problem& problem, const PlanOptions& options) {
  return place_in_order(problem, with_bytes(problem), Deadline(options), lowest_fit);
}

// What else may be a good beginning, for conflicts and shapes.
constexpr std::pair<std::string_view, Placement (*)(const Problem&, const PlanOptions&)> kBeginnings[] = {
    {"orders", as_given},
    {"greedy_by_size", greedy_by_size},
    {"greedy_by_breadth", greedy_by_breadth},
    {"greedy_by_conflicts", greedy_by_conflicts},
    {"xla_heap", xla_heap},
};

// If so, searches that place lowest first may take long to find what is tight.
bool has_several_alignments(const Problem& problem) {
  const auto all = problem.alignment();
  return std::any_of(all.begin(), all.end(), [&](Bytes one) { return one != all.front(); });
}

// No plan peaks below a buffer's size; the load may, where a shape leaves its highest bytes unused.
Bytes least_peak(const Problem& problem) {
  Bytes least = aligned_load(problem);
  for (const Bytes size : problem.size()) least = std::max(least, size);
  return least;
}

bool sets_effort(const PlanOptions& options) {
  return std::any_of(options.set.begin(), options.set.end(),
                     [](const auto& set) { return set.first == kPortfolio[0].name; });
}

}  // namespace

bool says_effort(const PlanOptions& options) { return options.time_limit || sets_effort(options); }

std::int64_t effort_of(const PlanOptions& options) {
  return options.time_limit && !sets_effort(options) ? kEndless : options.get(kPortfolio[0]);
}

PortfolioSearch::PortfolioSearch(const Problem& problem, const PlanOptions& options, Placement& best, MakeRounds make,
                                 std::int64_t most)
    : problem_(problem),
      options_(options),
      make_(std::move(make)),
      best_(best),
      peak_(peak_of(problem, best.offsets)),
      bound_(std::max(options.lower_bound, least_peak(problem))) {
  if (best.winner.empty()) best.winner = "first_fit";
  best.lower_bound = bound_;
  given_ = says_effort(options);
  effort_ = std::min(most, effort_of(options));
}

void PortfolioSearch::run(const Deadline& deadline) {
  begin(deadline);
  for (std::int64_t slice = std::min(kFirstSlice, effort_); !is_over(deadline); slice = std::min(2 * slice, kLastSlice))
    round(slice, deadline);
}

void PortfolioSearch::begin(const Deadline& deadline) {
  offer_beginnings(deadline);
  if (!is_over(deadline)) mend(deadline);
  if (!is_over(deadline)) exchange(deadline);
  if (!is_over(deadline)) gather(deadline);
}

void PortfolioSearch::round(std::int64_t slice, const Deadline& deadline) {
  const std::size_t threads = static_cast<std::size_t>(options_.threads);
  std::vector<bool> better(members_.size(), false);
  std::size_t done = 0;
  for (bool enough = false; done < members_.size() && !enough;) {
    const std::size_t end = std::min(members_.size(), done + threads);
    if (end - done == 1) {
      better[done] = search(members_[done], slice, deadline);
    } else {
      side_by_side(done, end, slice, better, deadline);
    }
    for (; done < end && !enough; ++done) enough = ends_the_search(members_[done], better[done]);
  }
  merge(done, better);
}

bool PortfolioSearch::is_done() const {
  if (peak_ <= enough() || is_refuted(bound_) || work_ >= effort_) return true;
  return began_ && std::all_of(members_.begin(), members_.end(),
                               [&](const Member& member) { return member.search->is_done(peak_); });
}

void PortfolioSearch::offer_beginnings(const Deadline& deadline) {
  tell();
  const bool varied = problem_.conflicts() != nullptr || has_several_alignments(problem_);
  if (varied && !is_over(deadline)) offer("greedy_by_size", greedy_by_size_until(problem_, deadline).offsets);
  if (!is_general() || !Obstacles::serves(problem_)) return;
  const PlanOptions within = options_within(options_, deadline);
  for (const auto& [name, start] : kBeginnings)
    if (!is_over(deadline)) offer(name, start(problem_, within).offsets);
}

// Where most of what lives is replaced between two peaks.
void PortfolioSearch::exchange(const Deadline& deadline) {
  if (is_general() || !problem_.together().empty() || problem_.count() > kMostExchanged) return;
  std::vector<Bytes> offsets;
  in_time([&] { offsets = plan_between_peaks(problem_, enough(), deadline); });
  if (!offsets.empty()) offer("between_peaks", std::move(offsets));
}

// What ends above the bound in a few places is often mended for little.
void PortfolioSearch::mend(const Deadline& deadline) {
  if (problem_.conflicts() != nullptr || problem_.has_shapes()) return;
  std::vector<Bytes> offsets = best_.offsets;
  std::int64_t left = kMending * problem_.count();
  in_time([&] { repair_in_windows(problem_, offsets, enough(), options_.seed, left, deadline); });
  offer("squeaky_wheel", std::move(offsets));
}

void PortfolioSearch::gather(const Deadline& deadline) {
  began_ = true;
  if (problem_.conflicts() != nullptr && may_be_bands() && add_lossless_bands(deadline)) return;
  if (is_general()) add_pairs(deadline);
  if (problem_.conflicts() != nullptr && may_be_bands() && !exact_) add_likely_bands(deadline);
  if (problem_.conflicts() == nullptr && !exact_) lay_out_sections(deadline);
  if (!is_exact()) limit_effort();
  if (is_general() && peak_ <= PairSqueeze::kMostBytes) add_general();
  if (sections_) add_valley(options_.seed, 1);
  members_.push_back({"squeaky_wheel", std::make_unique<WheelMember>(problem_, bound_, options_.seed)});
  if (sections_ && has_long_lives()) std::swap(members_[members_.size() - 2], members_.back());
  if (sections_) add_valley(options_.seed + 1, kEndless);
}

void PortfolioSearch::limit_effort() {
  if (!given_) effort_ = std::min(effort_, kInexactEffort * problem_.count());
}

// Sums of peaks and multiples of all alignments are small enough.
bool PortfolioSearch::may_be_bands() const {
  Bytes bytes = 0, multiple = 1;
  for (Index i = 0; i < problem_.count(); ++i) {
    if (problem_.alignment(i) > kMostAlignment) return false;
    multiple = std::lcm(multiple, problem_.alignment(i));
    if (multiple > kMostAlignment) return false;
    bytes += problem_.size(i);
  }
  return problem_.count() <= kMostInBands && bytes <= PairSqueeze::kMostBytes;
}

// Whether nothing else is needed.
bool PortfolioSearch::add_lossless_bands(const Deadline& deadline) {
  std::vector<Band> bands = separate_bands(problem_, deadline);
  const bool separate = bands.size() > 1;
  if (!separate) bands = joined_bands(problem_, deadline);
  if (bands.empty() || (bands.size() == 1 && bands.front().problem.conflicts() != nullptr)) return false;
  exact_ = std::all_of(bands.begin(), bands.end(), [](const Band& band) {
    return band.problem.count() <= PairSqueeze::kMostItems ||
           (band.problem.conflicts() == nullptr && !band.problem.has_shapes());
  });
  if (!exact_) limit_effort();
  auto member = std::make_unique<BandMember>(problem_, std::move(bands),
                                             separate ? BandMember::Bands::separate : BandMember::Bands::joined,
                                             options_.seed, make_);
  const bool lossless = member->is_lossless();
  exact_ = exact_ && lossless;
  members_.push_back({"bands", std::move(member), lossless});
  return lossless;
}

void PortfolioSearch::add_likely_bands(const Deadline& deadline) {
  if (problem_.has_shapes()) return;
  std::vector<Band> bands = likely_bands(problem_, deadline);
  Bytes least = 0;
  for (const Band& band : bands) least += bound_of_band(band.problem, options_, deadline);
  if (bands.empty() || least >= peak_ || least - bound_ > bound_ / kBandsNear) return;
  members_.push_back({"bands", std::make_unique<BandMember>(problem_, std::move(bands), BandMember::Bands::likely,
                                                            options_.seed, make_)});
}

void PortfolioSearch::lay_out_sections(const Deadline& deadline) {
  plain_.emplace(problem_.without_shapes());
  sections_.emplace(*plain_, deadline);
  if (sections_->covered > kMostCovered) sections_.reset();
  if (sections_ && !problem_.has_shapes()) raise_bound(sections_->highest_load());
}

void PortfolioSearch::add_general() {
  if (Obstacles::serves(problem_))
    members_.push_back({"ejection", std::make_unique<EndlessMember<EjectionSearch>>(problem_, options_.seed)});
  if (!problem_.has_shapes() && problem_.count() <= OrderSearch::kMostBuffers)
    members_.push_back({"orders", std::make_unique<EndlessMember<OrderSearch>>(problem_, options_.seed)});
}

bool PortfolioSearch::has_long_lives() const { return sections_->covered / kShortLife > problem_.count(); }

void PortfolioSearch::add_pairs(const Deadline& deadline) {
  if (problem_.count() > PairSqueeze::kMostBuffers || peak_ > PairSqueeze::kMostBytes) return;
  auto pairs = std::make_unique<PairSqueeze>(problem_, bound_, options_.seed, deadline);
  exact_ = pairs->is_exact();
  if (!pairs->is_done(peak_)) members_.push_back({"pairs", std::move(pairs), exact_});
}

void PortfolioSearch::add_valley(std::uint64_t seed, std::int64_t at_bound) {
  const std::int64_t least = has_long_lives() ? kPerSection * sections_->covered : 0;
  members_.push_back({"valley", std::make_unique<ValleyMember>(*plain_, *sections_, seed, at_bound, least)});
}

// Whether nothing fits the capacity, and no more was asked.
bool PortfolioSearch::is_refuted(Bytes bound) const {
  return options_.decide && bound > options_.capacity.value_or(kMaxBytes);
}

void PortfolioSearch::offer(std::string_view member, std::vector<Bytes> offsets) {
  if (peak_of(problem_, offsets) < peak_) keep(member, std::move(offsets));
}

void PortfolioSearch::keep(std::string_view member, std::vector<Bytes> offsets) {
  peak_ = peak_of(problem_, offsets);
  best_.offsets = std::move(offsets);
  best_.winner = member;
  tell();
}

// Whether it found a better plan.
bool PortfolioSearch::search(const Member& member, std::int64_t slice, const Deadline& deadline) const {
  try {
    deadline.check();
    return member.search->step({best_.offsets, peak_}, enough(), share(member, slice), deadline);
  } catch (const EndedError&) {
    return false;
  }
}

// Less for those whose kind found nothing in rounds in which others did.
std::int64_t PortfolioSearch::share(const Member& member, std::int64_t slice) const {
  const auto lag = lag_.find(member.name);
  return lag == lag_.end() ? slice : slice >> lag->second;
}

bool PortfolioSearch::ends_the_search(const Member& member, bool better) const {
  if (proves(member) && (member.search->lower_bound() >= peak_ || is_refuted(member.search->lower_bound())))
    return true;
  return better && peak_of(problem_, member.search->offsets()) <= enough();
}

// What is proven of plain rectangles does not hold for shapes.
bool PortfolioSearch::proves(const Member& member) const {
  return member.search->lower_bound() > 0 && (!problem_.has_shapes() || member.name != "valley");
}

// The members [begin, end), each on a thread of its own, while this one watches for who asks to stop.
void PortfolioSearch::side_by_side(std::size_t begin, std::size_t end, std::int64_t slice, std::vector<bool>& better,
                                   const Deadline& deadline) {
  std::atomic<bool> stop = false;
  PlanOptions watched;
  watched.time_limit = deadline.left();
  watched.stop = [&stop] { return stop.load(std::memory_order_relaxed); };
  std::vector<std::future<bool>> running;
  for (std::size_t k = begin; k < end; ++k)
    running.push_back(std::async(std::launch::async, [&, k] { return search(members_[k], slice, Deadline(watched)); }));
  for (std::size_t k = begin; k < end; ++k) {
    std::future<bool>& future = running[k - begin];
    while (future.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready)
      if (deadline.passed()) stop = true;
    better[k] = future.get();
    if (ends_the_search(members_[k], better[k])) stop = true;  // those after it count no more
  }
}

// What the first `done` members found.
void PortfolioSearch::merge(std::size_t done, const std::vector<bool>& better) {
  work_ = 0;
  for (std::size_t k = 0; k < members_.size(); ++k) {
    const Member& member = members_[k];
    if (k < done && proves(member)) raise_bound(member.search->lower_bound());
    if (k < done && better[k]) offer(member.name, member.search->offsets());
    work_ += member.search->work();
  }
  if (std::find(better.begin(), better.end(), true) != better.end()) note_winner();
}

void PortfolioSearch::note_winner() {
  if (lag_.contains(best_.winner)) return lag_.clear();
  std::set<std::string_view> others;
  for (const Member& member : members_)
    if (member.name != best_.winner && !member.seeks_proofs) others.insert(member.name);
  for (const std::string_view kind : others) lag_[kind] = std::min(lag_[kind] + 1, kMostLag);
}

}  // namespace memplan
