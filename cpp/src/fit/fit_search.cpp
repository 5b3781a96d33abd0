#include "fit/fit_search.hpp"

#include <algorithm>
#include <cmath>

#include "fit/anneal.hpp"

namespace memplan {

namespace {

constexpr int kAttempts = 8;          // greedy searches from the start, until one succeeds; two at least
constexpr std::size_t kPruned = 100;  // units that are looked at after a repair
constexpr double kAtOnce = 0.2;       // of what is too much, that is freed by candidates taken together
constexpr std::size_t kTrials = 40;   // candidates that are tried for one step of the greedy search
constexpr double kAnnealed = 0.6;     // of the work that is left after the greedy search
constexpr int kCoolings = 2;          // times that the best schedule is annealed

}  // namespace

void FitSearch::walk(const Schedule& schedule) {
  walk_.run(schedule);
  least_load_ = std::min(least_load_, walk_.load());
  *work_ -= walk_.work();
  deadline_.tick(static_cast<std::size_t>(walk_.work()));
}

double FitSearch::over() const {
  double over = 0;
  for (const Bytes need : walk_.need) over += static_cast<double>(std::max<Bytes>(need - capacity_, 0));
  return over;
}

// What could run again, by what it frees for its cost, with all that it needs: the best ones first.
class FitSearch::Choices {
 public:
  struct Choice {
    double score;
    double freed;
    std::vector<Rerun> reruns;
  };

  Choices(FitSearch& search, const Schedule& schedule, double noise) : search_(search), schedule_(schedule) {
    double dearest = 0;
    left_ = search.candidates_.all();
    for (const RerunCandidate& c : left_) dearest = std::max(dearest, cost_of(c.rerun));
    least_ = 1e-6 * dearest + 1e-300;  // so that no cost is 0
    for (RerunCandidate& c : left_) {
      const double chance = noise > 0 ? std::exp(noise * (search.chance_.share() + search.chance_.share() - 1)) : 1;
      c.score = chance * c.worth / (cost_of(c.rerun) + least_);
    }
    std::make_heap(left_.begin(), left_.end(), worse);
  }

  // By the cost of a unit alone first, which is the least: those whose turn it may be are looked at closely.
  std::optional<Choice> next() {
    while (!left_.empty() && (choices_.empty() || left_.front().score > choices_.front().score)) {
      std::pop_heap(left_.begin(), left_.end(), worse);
      look_at(left_.back());
      left_.pop_back();
    }
    if (choices_.empty()) return std::nullopt;
    std::pop_heap(choices_.begin(), choices_.end(), lower);
    Choice choice = std::move(choices_.back());
    choices_.pop_back();
    return choice;
  }

 private:
  static bool worse(const RerunCandidate& a, const RerunCandidate& b) {
    return a.score != b.score ? a.score < b.score : b.rerun < a.rerun;
  }
  static bool lower(const Choice& a, const Choice& b) { return a.score < b.score; }

  double cost_of(const Rerun& rerun) const { return schedule_.cost_of(rerun.unit); }

  void look_at(const RerunCandidate& c) {
    std::optional<std::vector<Rerun>> reruns = search_.candidates_.with_inputs(schedule_, search_.walk_, c.rerun);
    *search_.work_ -= 20;
    if (!reruns) return;
    double cost = least_;
    for (const Rerun& rerun : *reruns) cost += cost_of(rerun);
    choices_.push_back({c.score * (least_ + cost_of(c.rerun)) / cost, c.freed, std::move(*reruns)});
    std::push_heap(choices_.begin(), choices_.end(), lower);
  }

  FitSearch& search_;
  const Schedule& schedule_;
  double least_ = 0;
  std::vector<RerunCandidate> left_;  // a heap
  std::vector<Choice> choices_;       // a heap
};

// Whether two reruns bring the same item back at a stage.
bool FitSearch::brings_the_same(const Rerun& a, const Rerun& b) const {
  if (a == b || a.stage != b.stage) return a == b;
  const Unit &one = model_.units[at(a.unit)], &other = model_.units[at(b.unit)];
  if ((one.moved == kNone) == (other.moved == kNone)) return false;
  return std::find_first_of(one.items.begin(), one.items.end(), other.items.begin(), other.items.end()) !=
         one.items.end();
}

// Lets what frees most for its cost run again; false where nothing lowers what is too much. While that is a lot,
// several are taken at once.
bool FitSearch::step(Schedule& schedule, double noise, std::span<const double> price) {
  walk_.collect_events();
  candidates_.look(schedule, walk_, price);
  *work_ -= 2 * walk_.work();
  const double before = candidates_.over();
  Choices choices(*this, schedule, noise);
  std::optional<Choices::Choice> first = choices.next();
  if (!first) return false;
  std::vector<Rerun> several = first->reruns;
  for (double freed = first->freed; freed < kAtOnce * before;) {
    const std::optional<Choices::Choice> more = choices.next();
    if (!more) break;
    freed += more->freed;
    for (const Rerun& rerun : more->reruns)
      if (std::none_of(several.begin(), several.end(), [&](const Rerun& r) { return brings_the_same(r, rerun); }))
        several.push_back(rerun);
  }
  if (several.size() > first->reruns.size() && lowers(schedule, several, (1 - kAtOnce / 2) * before)) return true;
  for (std::size_t trial = 0; first && trial < kTrials; ++trial) {
    if (lowers(schedule, first->reruns, before)) return true;
    first = choices.next();
  }
  return false;
}

// Adds reruns if they leave less than `most` bytes x steps too much.
bool FitSearch::lowers(Schedule& schedule, const std::vector<Rerun>& reruns, double most) {
  for (const Rerun& rerun : reruns) schedule.add(rerun);
  walk(schedule);
  if (over() < most) return true;
  for (const Rerun& rerun : reruns) schedule.remove(rerun);
  walk(schedule);
  walk_.collect_events();
  return false;
}

void FitSearch::look_around() {
  walk_.collect_events();
  candidates_.measure(walk_);
  *work_ -= walk_.work();
}

bool FitSearch::repair(Schedule& schedule, double noise, std::span<const double> price) {
  walk(schedule);
  while (walk_.load() > capacity_) {
    if (*work_ < 0 || !step(schedule, noise, price)) return false;
  }
  return true;
}

// Takes away units, the dearest first, as long as the load stays within the capacity.
void FitSearch::prune(Schedule& schedule, std::size_t most) {
  std::vector<Rerun> all = schedule.reruns();
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[chance_.below(i)]);
  all.resize(std::min(all.size(), most));
  std::stable_sort(all.begin(), all.end(),
                   [&](const Rerun& a, const Rerun& b) { return schedule.cost_of(a.unit) > schedule.cost_of(b.unit); });
  walk(schedule);
  look_around();
  for (const Rerun& rerun : all) {
    if (!candidates_.may_go(walk_, rerun)) continue;
    schedule.remove(rerun);
    walk(schedule);
    if (walk_.load() <= capacity_) {
      look_around();
      continue;
    }
    schedule.add(rerun);
    walk(schedule);
    look_around();
  }
}

void FitSearch::ruin(Schedule& schedule) {
  const std::vector<Rerun> all = schedule.reruns();
  const double share = 0.02 + 0.3 * chance_.share() * chance_.share();
  const auto count = std::max<std::size_t>(1, static_cast<std::size_t>(share * static_cast<double>(all.size())));
  if (chance_.below(2) == 0) {  // neighbours in time
    const std::size_t begin = chance_.below(all.size());
    for (std::size_t r = begin; r < std::min(all.size(), begin + count); ++r) schedule.remove(all[r]);
  } else {
    std::vector<Rerun> shuffled = all;
    for (std::size_t r = 0; r < count; ++r) {
      std::swap(shuffled[r], shuffled[r + chance_.below(shuffled.size() - r)]);
      schedule.remove(shuffled[r]);
    }
  }
}

Schedule FitSearch::annealed(Schedule best, std::span<const double> price, double enough) {
  for (int left = kCoolings; left > 0 && *work_ > 0 && !ended_; --left) {
    std::int64_t part = *work_ / left;
    *work_ -= part;
    Anneal anneal(model_, capacity_, best, price, deadline_, chance_);
    ended_ = !anneal.run(enough, part);
    *work_ += part;
    best = anneal.best();
  }
  return best;
}

std::optional<Schedule> FitSearch::run(const Schedule& start, std::span<const double> price, double enough,
                                       std::int64_t& work) {
  work_ = &work;
  std::optional<Schedule> best;
  double best_cost = 0;
  const auto consider = [&](const Schedule& schedule) {
    const double cost = schedule.cost();
    if (best && cost >= best_cost) return;
    best = schedule;
    best_cost = cost;
  };
  try {
    for (int attempt = 0; attempt < kAttempts && work > 0; ++attempt) {
      if (best && attempt > 1) break;
      Schedule schedule = start;
      const std::span<const double> by = attempt % 2 == 0 ? std::span<const double>() : price;
      if (!repair(schedule, attempt < 2 ? 0 : 0.3 * attempt, by)) continue;
      consider(schedule);
      prune(schedule, schedule.size());
      consider(schedule);
    }
    if (!best) return best;
    Schedule current = *best;
    double current_cost = best_cost;
    const auto rest = static_cast<std::int64_t>(kAnnealed * static_cast<double>(work));
    while (work > std::max<std::int64_t>(rest, 0) && best_cost > enough) {
      Schedule schedule = current;
      ruin(schedule);
      const std::span<const double> by = chance_.below(2) == 0 ? std::span<const double>() : price;
      if (!repair(schedule, 0.8 * chance_.share(), by)) continue;
      prune(schedule, kPruned);
      consider(schedule);
      const double cost = schedule.cost();
      if (cost <= current_cost || cost <= best_cost * (1 + 0.002 * chance_.share())) {
        current = std::move(schedule);
        current_cost = cost;
      }
    }
  } catch (const EndedError&) {
    ended_ = true;
  }
  if (best && best_cost > enough) best = annealed(std::move(*best), price, enough);
  return best;
}

}  // namespace memplan
