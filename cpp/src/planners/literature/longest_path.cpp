// longest_path: the longest chain of buffers that may follow one another gets one colour, and is taken away. This
// repeats until nothing is left. Only buffers of one colour share memory. j may follow i if i dies before j is born and
// the two do not conflict. So if branches of a graph run side by side, chains are paths of the graph, and sharing stays
// within a branch.
//
//     ┌─▶ 2 ─▶ 3 ─▶ 4 ─┐        red:  1 ─▶ 4 …       one order of the ops would let 5 take the bytes of 2,
//     1                8        blue: 5 ─▶ 7 …       which ties the branches to that order
//     └─▶ 5 ─▶ 6 ─▶ 7 ─┘
//
// A chain is longest by its number of buffers, then by its bytes. Ties go to the lowest index, from its end backwards.
// If a buffer conflicts with an earlier one of its chain, though not with the one right before it, it waits for a later
// colour. Conflicts that follow from a partial order of ops never cause that. A colour is an object as large as its largest
// member.
//
// Complexity: O(n c) for c colours after sorting; with conflicts O((n log n + pairs) c) for the pairs that conflict.
// Guarantee: none on bytes.
// Source: the translated notes on memory optimisation in MXNet, "memory allocation for parallel operations".
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/sorting.hpp"
#include "placing/shared_objects.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

// A chain, by the buffer it ends with; the better of two comes first.
struct Chain {
  Index length = 0;
  Bytes bytes = 0;
  Index end = kNone;

  bool operator<(const Chain& other) const {
    if (length != other.length) return length > other.length;
    return bytes != other.bytes ? bytes > other.bytes : end < other.end;
  }
};

class Chains {
 public:
  Chains(const Problem& problem, const Deadline& deadline) : problem_(problem), deadline_(deadline) {
    births_ = by_birth(problem);
    deaths_ = sorted_by(problem.last(), births_);
    best_.resize(problem.size().size());
    before_.resize(problem.size().size());
    taken_.assign(problem.size().size(), false);
  }

  bool done() const { return births_.empty(); }

  // The longest chain of what is left, which is left no more.
  std::vector<Index> take() {
    const Chain longest = problem_.conflicts() == nullptr ? sweep() : sweep_with_conflicts();
    std::vector<Index> chain;
    for (Index i = longest.end; i != kNone; i = before(i)) chain.push_back(i);
    std::reverse(chain.begin(), chain.end());
    if (problem_.conflicts() != nullptr) keep_apart(chain);
    for (Index i : chain) taken_[at(i)] = true;
    std::erase_if(births_, [&](Index i) { return taken_[at(i)]; });
    std::erase_if(deaths_, [&](Index i) { return taken_[at(i)]; });
    return chain;
  }

 private:
  Chain& best(Index i) { return best_[at(i)]; }
  Index& before(Index i) { return before_[at(i)]; }

  void extend(Index i, const Chain& chain) {
    best(i) = {chain.length + 1, chain.bytes + problem_.size(i), i};
    before(i) = chain.end;
  }

  // Visits births in order; `bury` gets each buffer that is dead by then, `follow` finds what the born one follows.
  template <class Bury, class Follow>
  Chain visit(Bury&& bury, Follow&& follow) {
    Chain longest;
    auto dead = deaths_.begin();
    for (Index born : births_) {
      for (; dead != deaths_.end() && problem_.last(*dead) <= problem_.first(born); ++dead) bury(best(*dead));
      extend(born, follow(born));
      longest = std::min(longest, best(born));
      deadline_.tick(4);
    }
    return longest;
  }

  Chain sweep() {
    Chain front;  // the best that has ended
    return visit([&](const Chain& chain) { front = std::min(front, chain); }, [&](Index) { return front; });
  }

  Chain sweep_with_conflicts() {
    std::set<Chain> ended;
    return visit([&](const Chain& chain) { ended.insert(chain); },
                 [&](Index born) {
                   const auto may_follow = [&](const Chain& chain) {
                     deadline_.tick();
                     return !problem_.conflicts()->contains(chain.end, born);
                   };
                   const auto found = std::find_if(ended.begin(), ended.end(), may_follow);
                   return found == ended.end() ? Chain{} : *found;
                 });
  }

  // Drops from the chain whoever conflicts with one that stays before it.
  void keep_apart(std::vector<Index>& chain) const {
    std::vector<Index> kept;
    for (Index i : chain)
      if (std::none_of(kept.begin(), kept.end(), [&](Index k) { return problem_.conflicts()->contains(k, i); }))
        kept.push_back(i);
    chain = std::move(kept);
  }

  const Problem& problem_;
  const Deadline& deadline_;
  std::vector<Index> births_, deaths_;  // what is left, by first and by last
  std::vector<Chain> best_;             // per buffer, the best chain that it ends
  std::vector<Index> before_;           // per buffer, the one before it in that chain
  std::vector<bool> taken_;
};

}  // namespace

Placement longest_path(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  SharedObjects colours(problem);
  for (Chains chains(problem, deadline); !chains.done();) {
    const Index colour = colours.open();
    for (Index i : chains.take()) colours.put(colour, i);
  }
  return colours.end_to_end();
}

}  // namespace memplan
