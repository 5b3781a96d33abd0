#include "search/pairs/pair_search.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace memplan {

namespace {

constexpr double kNoise = 0.3;
constexpr std::size_t kMostStacked = 12;    // members of a clique, of which each set is looked at
constexpr std::int64_t kMostSweeps = 1000;  // to settle a plan: with alignments that have little in common

Bytes multiple_at_least(Bytes difference, Bytes step) {
  const Bytes excess = difference % step;
  return excess > 0 ? difference + (step - excess) : difference - excess;
}

}  // namespace

PairSearch::PairSearch(const Problem& problem, const Pairs& pairs, const std::vector<Clique>& cliques,
                       std::uint64_t seed, ProofTree* tree)
    : pairs_(pairs),
      tree_(tree),
      side_(at(pairs.count()) + 1),
      step_(side_ * side_, 0),
      failures_(side_ * side_, 0),
      chance_(seed) {
  const Index n = pairs.count();
  for (Index i = 0; i <= n; ++i)
    for (Index j = 0; j <= n; ++j) {
      const Bytes of_i = i == n ? 0 : pairs.alignment(i);
      const Bytes of_j = j == n ? 0 : pairs.alignment(j);
      step_[cell(i, j)] = std::gcd(of_i, of_j);
      plain_steps_ = plain_steps_ && step_[cell(i, j)] <= 1;
    }
  std::vector<Index> item(problem.size().size(), kNone);
  for (Index i = 0; i < n; ++i) item[at(pairs.buffer(i))] = i;
  for (const Clique& clique : cliques) add_clique(clique, item);
  order_twins();
  if (plain_steps_ && !problem.has_shapes() && tree == nullptr) order_upside_down();
}

// With all offsets and beginnings multiples of a common divisor, what lies on a member begins at one.
void PairSearch::add_clique(const Clique& clique, const std::vector<Index>& item) {
  std::vector<Member> members;
  Bytes divisor = 0;
  for (const CliqueMember& member : clique.members) {
    const Index i = item[at(member.buffer)];
    if (i == kNone) continue;
    members.push_back({i, member.begin, member.end, 0});
    divisor = std::gcd(divisor, std::gcd(pairs_.alignment(i), member.begin));
  }
  for (Member& m : members) m.padding = multiple_at_least(m.end - m.begin, divisor) - (m.end - m.begin);
  if (members.size() > 1) cliques_.push_back(std::move(members));
}

void PairSearch::order_twins() {
  for (Index j = 0; j < pairs_.count(); ++j)
    for (Index i = j - 1; i >= 0; --i) {
      if (!pairs_.twins(i, j)) continue;
      ordered_.emplace_back(i, j);
      break;
    }
}

void PairSearch::order_upside_down() {
  std::vector<bool> has_twin(at(pairs_.count()), false);
  for (const auto& [i, j] : ordered_) has_twin[at(i)] = has_twin[at(j)] = true;
  Bytes most = 0;
  for (Index i = 0; i < pairs_.count(); ++i)
    for (Index j = i + 1; j < pairs_.count(); ++j) {
      const Bytes both = std::min(pairs_.size(i), pairs_.size(j));
      if (has_twin[at(i)] || has_twin[at(j)] || pairs_.gaps(i, j).size() != 2 || both <= most) continue;
      most = both;
      mirror_i_ = i;
      mirror_j_ = j;
    }
}

Decision PairSearch::run(Bytes capacity, const RunLimits& limits) {
  deadline_ = &limits.deadline;
  nodes_left_ = limits.steps;
  most_work_ = limits.work;
  capacity_ = capacity;
  offsets_.assign(at(pairs_.count()), 0);
  if (tree_ != nullptr) tree_->start();
  if (!start(capacity)) return Decision::infeasible;
  const Result result = search(0);
  vary_ = true;
  if (result == Result::found) return Decision::found;
  return result == Result::dead ? Decision::infeasible : Decision::undecided;
}

// The differences that hold in every plan; false where there is none.
bool PairSearch::start(Bytes capacity) {
  if (levels_.empty()) levels_.push_back(std::make_unique<Level>());
  Table& table = levels_[0]->table;
  const Index n = pairs_.count();
  table.assign(side_ * side_, 0);
  for (Index i = 0; i < n; ++i) {
    const Bytes room = capacity - pairs_.size(i);
    if (room < 0) return false;
    table[cell(i, n)] = -(room - room % pairs_.alignment(i));
  }
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j)
      if (i != j) table[cell(i, j)] = multiple_at_least(table[cell(i, n)], step_[cell(i, j)]);
  for (const auto& [i, j] : ordered_)
    if (!raise(table, i, j, 0)) return false;
  if (mirror_i_ != kNone && !raise(table, mirror_i_, mirror_j_, 0)) return false;
  std::vector<Index>& open = levels_[0]->open;
  open.clear();
  for (Index i = 0; i < n; ++i)
    for (Index j = i + 1; j < n; ++j)
      if (pairs_.gaps(i, j).size() != 1 || pairs_.gaps(i, j)[0].lowest != -Pairs::kFar)
        open.push_back(static_cast<Index>(cell(i, j)));
  return true;
}

// Differences from a to b are at least that; false where the state is dead.
bool PairSearch::raise(Table& table, Index a, Index b, Bytes difference) {
  if (table[cell(a, b)] >= difference) return true;
  work_ += static_cast<std::int64_t>(side_ * side_ / 8 + 1);
  deadline_->tick(side_ * side_ / 8 + 1);
  const Bytes* const onwards = &table[cell(b, 0)];
  for (std::size_t p = 0; p < side_; ++p) {
    Bytes* const row = &table[p * side_];
    const Bytes to_b = (static_cast<Index>(p) == a ? 0 : row[a]) + difference;
    if (static_cast<Index>(p) != b && row[b] >= to_b) continue;
    const Bytes* const steps = &step_[p * side_];
    for (std::size_t q = 0; q < side_; ++q) {
      Bytes through = to_b + (q == at(b) ? 0 : onwards[q]);
      if (through <= row[q]) continue;
      if (q == p) return false;
      if (!plain_steps_) through = multiple_at_least(through, steps[q]);
      row[q] = through;
    }
  }
  return true;
}

// Keeps what the gaps of a pair leave; false where that is nothing.
bool PairSearch::narrow(Table& table, Index i, Index j, bool& decided) {
  const std::span<const OffsetGap> gaps = pairs_.gaps(i, j);
  Bytes lowest = table[cell(i, j)], highest = -table[cell(j, i)];
  auto first = gaps.begin();
  while (first != gaps.end() && first->highest < lowest) ++first;
  auto last = gaps.end();
  while (last != first && (last - 1)->lowest > highest) --last;
  if (first == last) return false;
  decided = last - first == 1;
  const Bytes least = first->lowest, most = (last - 1)->highest;
  if (least > lowest && !raise(table, i, j, least)) return false;
  if (most < highest && !raise(table, j, i, -most)) return false;
  return true;
}

bool PairSearch::propagate(Table& table, std::vector<Index>& open) {
  for (bool again = true; again;) {
    again = false;
    work_ += static_cast<std::int64_t>(open.size() / 4 + 1);
    deadline_->tick(open.size() / 4 + 1);
    std::size_t kept = 0;
    for (std::size_t k = 0; k < open.size(); ++k) {
      const Index i = open[k] / static_cast<Index>(side_), j = open[k] % static_cast<Index>(side_);
      const Bytes lowest = table[cell(i, j)], highest = table[cell(j, i)];
      bool decided = false;
      if (!narrow(table, i, j, decided)) {
        failed_i_ = i;
        failed_j_ = j;
        return false;
      }
      again |= table[cell(i, j)] > lowest || table[cell(j, i)] > highest;
      if (!decided) open[kept++] = open[k];
    }
    open.resize(kept);
  }
  return !overloaded(table);
}

bool PairSearch::overloaded(const Table& table) {
  return std::any_of(cliques_.begin(), cliques_.end(), [&](const auto& clique) { return overloaded(table, clique); }) ||
         std::any_of(cliques_.begin(), cliques_.end(),
                     [&](const auto& clique) { return cannot_be_stacked(table, clique); });
}

// Whether members of a clique have to lie in less room than they need: from the least offset of some to the highest
// end. The highest of them does not need its padding, and which that is, is not known.
bool PairSearch::overloaded(const Table& table, const std::vector<Member>& clique) {
  order_.resize(clique.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(),
            [&](Index a, Index b) { return lowest(table, clique[at(a)]) > lowest(table, clique[at(b)]); });
  work_ += static_cast<std::int64_t>(clique.size() * clique.size() / 4);
  deadline_->tick(clique.size() * clique.size() / 4);
  for (const Member& top : clique) {
    const Bytes end = highest(table, top);
    Bytes sum = 0, most = 0;
    for (const Index k : order_) {
      const Member& member = clique[at(k)];
      if (highest(table, member) > end) continue;
      sum += member.end - member.begin + member.padding;
      most = std::max(most, member.padding);
      if (lowest(table, member) + sum - most <= end) continue;
      failed_i_ = std::min(top.item, member.item);
      failed_j_ = std::max(top.item, member.item);
      write_down(table, clique, lowest(table, member), end);
      return true;
    }
  }
  return false;
}

// Whether members of several alignments end above where one may end, in whatever order they lie one on another. The
// least end of a set of them is that over all that may be its highest member.
bool PairSearch::cannot_be_stacked(const Table& table, const std::vector<Member>& clique) {
  const std::size_t count = clique.size();
  const auto alignment = [&](const Member& m) { return pairs_.alignment(m.item); };
  const auto same = [&](const Member& m) { return alignment(m) == alignment(clique.front()); };
  if (count > kMostStacked || std::all_of(clique.begin(), clique.end(), same)) return false;
  std::array<std::size_t, kMostStacked> below{};  // per member, those that lie below it
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j)
      if (i != j && table[cell(clique[j].item, clique[i].item)] > clique[j].begin - clique[i].end)
        below[i] |= std::size_t{1} << j;
  ends_.assign(std::size_t{1} << count, kMaxBytes);
  ends_[0] = 0;
  for (std::size_t set = 0; set + 1 < ends_.size(); ++set) {
    if (ends_[set] == kMaxBytes) continue;
    work_ += static_cast<std::int64_t>(count / 2);
    deadline_->tick(count / 2);
    for (std::size_t i = 0; i < count; ++i) {
      if ((set >> i & 1) != 0 || (below[i] & ~set) != 0) continue;
      const Member& m = clique[i];
      const Bytes offset = multiple_at_least(std::max(ends_[set], lowest(table, m)) - m.begin, alignment(m));
      const Bytes end = offset + m.end;
      if (end > highest(table, m)) continue;
      Bytes& least = ends_[set | std::size_t{1} << i];
      least = std::min(least, end);
    }
  }
  if (ends_.back() < kMaxBytes) return false;
  failed_i_ = std::min(clique[0].item, clique[1].item);
  failed_j_ = std::max(clique[0].item, clique[1].item);
  write_down(table, clique, 0, capacity_);
  return true;
}

// The members that lie between two heights have too little room there.
void PairSearch::write_down(const Table& table, const std::vector<Member>& clique, Bytes from, Bytes to) {
  if (tree_ == nullptr) return;
  std::vector<CliqueMember> members;
  for (const Member& m : clique)
    if (lowest(table, m) >= from && highest(table, m) <= to) members.push_back({pairs_.buffer(m.item), m.begin, m.end});
  tree_->overloaded(std::move(members));
}

// The pair to branch on; false where all are decided.
bool PairSearch::choose(const Table& table, const std::vector<Index>& open, Choice& choice) {
  double best = 0;
  bool found = false;
  for (const Index place : open) {
    const Index i = place / static_cast<Index>(side_), j = place % static_cast<Index>(side_);
    const std::span<const OffsetGap> gaps = pairs_.gaps(i, j);
    const Bytes lowest = table[cell(i, j)], highest = -table[cell(j, i)];
    Bytes widest = -1, below = 0, above = 0;
    for (std::size_t k = 0; k + 1 < gaps.size(); ++k) {
      if (gaps[k].highest < lowest || gaps[k + 1].lowest > highest) continue;
      if (gaps[k + 1].lowest - gaps[k].highest <= widest) continue;
      widest = gaps[k + 1].lowest - gaps[k].highest;
      below = gaps[k].highest;
      above = gaps[k + 1].lowest;
    }
    const double room_below = static_cast<double>(below - lowest) + 1,
                 room_above = static_cast<double>(highest - above) + 1;
    double score = room_below * room_above / (1 + failures_[at(place)]);
    if (vary_) score *= 1 + kNoise * (2 * chance_.share() - 1);
    if (found && score >= best) continue;
    found = true;
    best = score;
    choice = {i, j, below, above, room_above > room_below};
  }
  return found;
}

PairSearch::Result PairSearch::search(std::size_t depth) {
  Level& level = *levels_[depth];
  if (nodes_left_-- <= 0 || work_ >= most_work_ || (tree_ != nullptr && tree_->is_full())) return Result::stopped;
  if (!propagate(level.table, level.open)) {
    failures_[cell(failed_i_, failed_j_)] += 1;
    return Result::dead;
  }
  Choice choice{};
  if (!choose(level.table, level.open, choice)) return settle(level.table);
  if (depth + 1 == levels_.size()) levels_.push_back(std::make_unique<Level>());
  Level& next = *levels_[depth + 1];
  const Index here = tree_ == nullptr ? kNone : tree_->here();
  for (const bool above : {choice.above_first, !choice.above_first}) {
    next.table = level.table;
    next.open = level.open;
    work_ += static_cast<std::int64_t>(side_ * side_ / 16 + 1);
    const Index lower = above ? choice.i : choice.j, upper = above ? choice.j : choice.i;
    const Bytes difference = above ? choice.above : -choice.below;
    if (tree_ != nullptr) tree_->enter(here, pairs_.buffer(lower), pairs_.buffer(upper), difference);
    if (!raise(next.table, lower, upper, difference)) continue;
    const Result result = search(depth + 1);
    if (result != Result::dead) return result;
  }
  failures_[cell(choice.i, choice.j)] += 1;
  return Result::dead;
}

// The lowest plan of the table: alignments may ask for more than it says of two.
PairSearch::Result PairSearch::settle(const Table& table) {
  const Index n = pairs_.count();
  for (Index i = 0; i < n; ++i) offsets_[at(i)] = table[cell(n, i)];
  bool again = true;
  for (std::int64_t sweep = 0; again && sweep < kMostSweeps; ++sweep) {
    again = false;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) {
        if (i == j || offsets_[at(j)] >= offsets_[at(i)] + table[cell(i, j)]) continue;
        offsets_[at(j)] = multiple_at_least(offsets_[at(i)] + table[cell(i, j)], pairs_.alignment(j));
        if (offsets_[at(j)] > -table[cell(j, n)]) return Result::dead;
        again = true;
      }
  }
  return again ? Result::stopped : Result::found;
}

}  // namespace memplan
