#include "problem/clique_search.hpp"

#include <algorithm>

#include "base/chance.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kFirstShare = 8;   // of the work, one part for the first try, and as much for climbing
constexpr std::int64_t kPatience = 1000;  // moves without a heavier clique, before a climb ends
constexpr std::size_t kUntoldWords = 4096;
constexpr std::size_t kVerticesPerWord = 16;  // of a move: what takes as long as looking at a word

bool is_set(const Bits& bits, Index v) { return (bits[at(v) / 64] >> (at(v) % 64)) & 1; }
void set(Bits& bits, Index v) { bits[at(v) / 64] |= std::uint64_t{1} << (at(v) % 64); }
void clear(Bits& bits, Index v) { bits[at(v) / 64] &= ~(std::uint64_t{1} << (at(v) % 64)); }
bool any(const Bits& bits) {
  return std::any_of(bits.begin(), bits.end(), [](std::uint64_t word) { return word != 0; });
}

// A clique that changes by a vertex at a time.
class Climb {
 public:
  Climb(const WeightedGraph& graph, Index start)
      : graph_(graph), in_(graph.words(), 0), apart_(at(graph.count()), 0), out_until_(at(graph.count()), 0) {
    change(start, 1);
  }

  Bytes weight() const { return weight_; }
  const Bits& clique() const { return in_; }

  void move(Chance& chance) {
    ++moves_;
    Index joins = kNone, leaves = kNone;
    Bytes most = -kMaxBytes;
    const auto consider = [&](Bytes gain, Index joining, Index leaving) {
      if (gain <= most) return;
      most = gain;
      joins = joining;
      leaves = leaving;
    };
    for (Index v = 0; v < graph_.count(); ++v) {
      if (is_set(in_, v)) {
        consider(-graph_.weight(v), kNone, v);
      } else if (apart_[at(v)] <= 1 && out_until_[at(v)] <= moves_) {
        const Index other = apart_[at(v)] == 1 ? the_one_apart(v) : kNone;
        consider(graph_.weight(v) - (other == kNone ? 0 : graph_.weight(other)), v, other);
      }
    }
    if (leaves != kNone) {
      change(leaves, -1);
      out_until_[at(leaves)] = moves_ + kLeastOut + static_cast<std::int64_t>(chance.below(kLeastOut));
    }
    if (joins != kNone) change(joins, 1);
  }

 private:
  static constexpr std::int64_t kLeastOut = 7;  // moves

  // The member that v is not joined with.
  Index the_one_apart(Index v) const {
    const auto row = graph_.row(v);
    std::size_t w = 0;
    while ((in_[w] & ~row[w]) == 0) ++w;
    return static_cast<Index>(w * 64 + at(std::countr_zero(in_[w] & ~row[w])));
  }

  void change(Index v, Index by) {
    by > 0 ? set(in_, v) : clear(in_, v);
    weight_ += by * graph_.weight(v);
    for (Index u = 0; u < graph_.count(); ++u)
      if (u != v && !graph_.joined(v, u)) apart_[at(u)] += by;
  }

  const WeightedGraph& graph_;
  Bits in_;
  std::vector<Index> apart_;             // per vertex, how many of the clique it is not joined with
  std::vector<std::int64_t> out_until_;  // per vertex, the move before which it may not join
  Bytes weight_ = 0;
  std::int64_t moves_ = 0;
};

}  // namespace

void CliqueSearch::offer(std::vector<Index> clique) {
  Bytes weight = 0;
  for (const Index v : clique) weight += graph_.weight(v);
  if (weight <= best_weight_) return;
  best_weight_ = weight;
  best_ = std::move(clique);
}

bool CliqueSearch::run(std::int64_t work) {
  if (branch_and_bound(work / kFirstShare)) return true;
  climb(work / kFirstShare);
  return branch_and_bound(work - 2 * (work / kFirstShare));
}

void CliqueSearch::spend(std::size_t words) {
  left_ -= static_cast<std::int64_t>(words);
  untold_ += words;
  if (untold_ >= kUntoldWords) tick_(std::exchange(untold_, 0));
}

bool CliqueSearch::branch_and_bound(std::int64_t work) {
  left_ = work;
  reduce();
  const Index count = sub_->count();
  rest_.assign(at(count), 0);
  open_.assign(sub_->words(), 0);
  levels_.clear();
  clique_.clear();
  levels_.push_back(std::make_unique<Level>(Level{Bits(sub_->words(), 0), Bits(sub_->words(), 0)}));
  for (Index v = 0; v < count; ++v) set(levels_[0]->candidates, v);
  return expand(0, 0);
}

// What may be in a heavier clique than the best, the heaviest first: with all its neighbours it weighs more.
void CliqueSearch::reduce() {
  vertices_.clear();
  for (Index v = 0; v < graph_.count(); ++v) {
    Bytes weight = graph_.weight(v);
    for_each_bit(graph_.row(v), [&](Index other) { weight += graph_.weight(other); });
    spend(graph_.words());
    if (weight > best_weight_) vertices_.push_back(v);
  }
  std::stable_sort(vertices_.begin(), vertices_.end(),
                   [&](Index a, Index b) { return graph_.weight(a) > graph_.weight(b); });
  std::vector<Bytes> weights;
  std::vector<Index> place(at(graph_.count()), kNone);
  for (const Index v : vertices_) {
    place[at(v)] = static_cast<Index>(weights.size());
    weights.push_back(graph_.weight(v));
  }
  sub_.emplace(std::move(weights));
  for (const Index v : vertices_) {
    spend(graph_.words());
    for_each_bit(graph_.row(v), [&](Index other) {
      if (place[at(other)] != kNone && v < other) sub_->join(place[at(v)], place[at(other)]);
    });
  }
}

// Adds to the clique what makes it heaviest. False where the work is spent.
bool CliqueSearch::expand(std::size_t depth, Bytes weight) {
  if (weight > best_weight_) {
    std::vector<Index> found;
    for (const Index v : clique_) found.push_back(vertices_[at(v)]);
    offer(std::move(found));
  }
  Level& level = *levels_[depth];
  if (!any(level.candidates)) return true;
  if (left_ <= 0) return false;
  colour(level, best_weight_ - weight);
  if (depth + 1 == levels_.size())
    levels_.push_back(std::make_unique<Level>(Level{Bits(sub_->words(), 0), Bits(sub_->words(), 0)}));
  Level& next = *levels_[depth + 1];
  for (std::size_t w = 0; w < level.candidates.size(); ++w) level.candidates[w] &= ~level.branches[w];
  bool complete = true;
  for_each_bit(level.branches, [&](Index v) {
    if (!complete) return;
    const auto row = sub_->row(v);
    for (std::size_t w = 0; w < row.size(); ++w) next.candidates[w] = level.candidates[w] & row[w];
    spend(row.size());
    clique_.push_back(v);
    complete = expand(depth + 1, weight + sub_->weight(v));
    clique_.pop_back();
    set(level.candidates, v);
  });
  return complete;
}

// Finds which candidates to branch on: cliques of the others weigh at most `limit`.
void CliqueSearch::colour(Level& level, Bytes limit) {
  level.branches = level.candidates;
  for_each_bit(level.candidates, [&](Index v) { rest_[at(v)] = sub_->weight(v); });
  while (any(level.branches)) {
    open_ = level.branches;
    colour_.clear();
    Bytes least = kMaxBytes;
    for (std::size_t w = 0; w < open_.size(); ++w) {
      while (open_[w] != 0) {
        const auto v = static_cast<Index>(w * 64 + at(std::countr_zero(open_[w])));
        clear(open_, v);
        const auto row = sub_->row(v);
        for (std::size_t k = w; k < row.size(); ++k) open_[k] &= ~row[k];
        spend(row.size() - w);
        colour_.push_back(v);
        least = std::min(least, rest_[at(v)]);
      }
    }
    if (least > limit) return;
    limit -= least;
    for (const Index v : colour_)
      if ((rest_[at(v)] -= least) == 0) clear(level.branches, v);
  }
}

// Moves from clique to clique: a vertex joins, or takes the place of one that it is not joined with, whatever gains
// most; where nothing else can be done, the lightest leaves. What has left stays out for some moves. Each climb begins
// at another vertex.
void CliqueSearch::climb(std::int64_t work) {
  left_ = work;
  Chance chance(0);
  for (Index start = 0; start < sub_->count() && left_ > 0; ++start) {
    Climb climb(*sub_, start);
    Bytes highest = 0;
    for (std::int64_t quiet = 0; quiet < kPatience && left_ > 0; ++quiet) {
      spend(at(sub_->count()) / kVerticesPerWord + 1);
      climb.move(chance);
      if (climb.weight() <= highest) continue;
      highest = climb.weight();
      quiet = 0;
      if (highest <= best_weight_) continue;
      std::vector<Index> found;
      for_each_bit(climb.clique(), [&](Index v) { found.push_back(vertices_[at(v)]); });
      offer(std::move(found));
    }
  }
}

}  // namespace memplan
