#include "memplan/clique.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/deadline.hpp"
#include "memplan/bounds.hpp"
#include "problem/antichain.hpp"
#include "problem/clique_search.hpp"
#include "problem/order_rows.hpp"
#include "problem/orders.hpp"
#include "problem/section_lives.hpp"
#include "problem/unbranched.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostRanges = 1 << 14;  // a graph of them takes 32 MiB
constexpr Index kMostTurned = 1 << 11;        // ranges, of which the order is turned: O(n^2 x words)
constexpr std::size_t kWordsPerTick = 8;      // of the deadline

// Buffers that may be in a clique of more bytes. Without conflicts beyond lifetimes, the buffers of a clique live at
// one step, together with as many bytes, were they whole.
std::vector<Index> worth_looking_at(const Problem& problem, Bytes bytes, const Deadline& deadline) {
  std::vector<Index> buffers = with_bytes(problem);
  if (problem.conflicts() != nullptr) return buffers;
  const std::vector<Bytes> covered = load_covered(section_lives(problem, deadline), deadline);
  std::erase_if(buffers, [&](Index i) { return covered[at(i)] <= bytes; });
  return buffers;
}

// The vertices of the graph: the ranges of bytes of each buffer between the ends of its parts.
std::vector<CliqueMember> ranges_of(const Problem& problem, const std::vector<Index>& buffers) {
  std::vector<CliqueMember> ranges;
  std::vector<Bytes> ends;
  for (const Index i : buffers) {
    ends.assign({0, problem.size(i)});
    for (const Part& part : problem.parts(i)) ends.insert(ends.end(), {part.begin, part.end});
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (std::size_t k = 1; k < ends.size(); ++k) ranges.push_back({i, ends[k - 1], ends[k]});
  }
  return ranges;
}

// The clique of the tightest step, or the largest buffer where that needs more: a shape may leave bytes unused.
Clique clique_of_load(const Problem& problem) {
  const TightestStep tightest = tightest_step(problem);
  Clique clique{tightest.bytes, {}};
  for (const TightestStep::User& user : tightest.users)
    problem.for_each_part(user.buffer, [&](const Part& part) {
      if (part.first <= tightest.step && tightest.step < part.last)
        clique.members.push_back({part.buffer, part.begin, part.end});
    });
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > clique.bytes) clique = {problem.size(i), {{i, 0, problem.size(i)}}};
  return clique;
}

// The ranges of one problem, and which are apart.
class Ranges {
 public:
  Ranges(const Problem& problem, std::vector<CliqueMember> ranges, const Deadline& deadline)
      : problem_(problem), deadline_(deadline), ranges_(std::move(ranges)), graph_(sizes()) {
    join_what_lives_together();
    join_conflicts();
    find_padding();
  }

  // The clique, or a heavier one that is found with so much work.
  Clique heavier(Clique best, std::int64_t work) const {
    if (any_padding_) work /= 2;
    best = search(std::move(best), graph_, work);
    if (!any_padding_) return best;
    WeightedGraph padded = graph_;
    for (Index v = 0; v < padded.count(); ++v) padded.add_weight(v, padding_[at(v)]);
    return search(std::move(best), padded, work);
  }

  // From each range the heaviest that may join, one after another.
  std::vector<Clique> grown() const {
    std::vector<Index> heaviest(ranges_.size());
    std::iota(heaviest.begin(), heaviest.end(), 0);
    std::stable_sort(heaviest.begin(), heaviest.end(),
                     [&](Index a, Index b) { return graph_.weight(a) > graph_.weight(b); });
    std::vector<std::vector<Index>> found;
    for (const Index start : heaviest) {
      deadline_.tick(ranges_.size());
      std::vector<Index> members = {start};
      for (const Index v : heaviest)
        if (graph_.joined(start, v) &&
            std::all_of(members.begin(), members.end(), [&](Index u) { return graph_.joined(u, v); }))
          members.push_back(v);
      std::sort(members.begin(), members.end());
      if (std::find(found.begin(), found.end(), members) == found.end()) found.push_back(std::move(members));
    }
    std::vector<Clique> cliques;
    for (const std::vector<Index>& members : found) {
      Clique clique;
      for (const Index v : members) clique.members.push_back(ranges_[at(v)]);
      for (const Index v : members) clique.bytes += graph_.weight(v);
      cliques.push_back(std::move(clique));
    }
    return cliques;
  }

 private:
  std::vector<Bytes> sizes() const {
    std::vector<Bytes> sizes;
    for (const CliqueMember& range : ranges_) sizes.push_back(range.end - range.begin);
    return sizes;
  }

  // A sweep over the lives of ranges, one for each part that uses them.
  void join_what_lives_together() {
    struct Use {
      Index range;
      Step first, last;
    };
    std::vector<Use> uses, alive;
    for (Index v = 0; v < graph_.count(); ++v) {
      const CliqueMember& range = ranges_[at(v)];
      problem_.for_each_part(range.buffer, [&](const Part& part) {
        if (part.begin <= range.begin && range.end <= part.end) uses.push_back({v, part.first, part.last});
      });
    }
    std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.first < b.first; });
    for (const Use& use : uses) {
      std::erase_if(alive, [&](const Use& other) { return other.last <= use.first; });
      deadline_.tick(1 + alive.size());
      for (const Use& other : alive)
        if (other.range != use.range) graph_.join(other.range, use.range);
      alive.push_back(use);
    }
  }

  // Buffers that conflict whatever their lives are apart with all their bytes, and so are those of one buffer.
  void join_conflicts() {
    std::vector<Index> first(at(problem_.count()) + 1, 0);  // per buffer, and one more: its first range
    for (const CliqueMember& range : ranges_) ++first[at(range.buffer) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    const auto join = [&](Index a, Index b) {
      deadline_.tick();
      for (Index v = first[at(a)]; v < first[at(a) + 1]; ++v)
        for (Index u = first[at(b)]; u < first[at(b) + 1]; ++u)
          if (v != u) graph_.join(v, u);
    };
    for (Index i = 0; i < problem_.count(); ++i) {
      join(i, i);
      if (problem_.conflicts() != nullptr) problem_.conflicts()->for_each(i, [&](Index other) { join(i, other); });
    }
  }

  // What lies on a buffer begins at a multiple of the common divisor of alignments. Shapes may interlock.
  void find_padding() {
    padding_.assign(ranges_.size(), 0);
    if (problem_.has_shapes()) return;
    for (Index v = 0; v < graph_.count(); ++v) {
      deadline_.tick(graph_.words());
      Bytes divisor = problem_.alignment(ranges_[at(v)].buffer);
      for_each_bit(graph_.row(v),
                   [&](Index other) { divisor = std::gcd(divisor, problem_.alignment(ranges_[at(other)].buffer)); });
      padding_[at(v)] = align_up(graph_.weight(v), divisor) - graph_.weight(v);
      any_padding_ |= padding_[at(v)] > 0;
    }
  }

  Clique search(Clique best, const WeightedGraph& graph, std::int64_t work) const {
    const auto tick = [&](std::size_t words) { deadline_.tick(words / kWordsPerTick + 1); };
    CliqueSearch search(graph, tick);
    try {
      search.offer(antichain(graph, work, tick));
      if (search.best().empty()) search.run(work);
    } catch (const EndedError&) {
    }
    Clique found;
    Bytes most = 0;  // padding
    for (const Index v : search.best()) {
      found.members.push_back(ranges_[at(v)]);
      found.bytes += graph_.weight(v) + padding_[at(v)];
      most = std::max(most, padding_[at(v)]);
    }
    found.bytes -= most;
    return found.bytes > best.bytes ? found : best;
  }

  // The heaviest clique, where what may follow one another is a partial order; else nothing.
  template <class Tick>
  std::vector<Index> antichain(const WeightedGraph& graph, std::int64_t work, const Tick& tick) const {
    if (problem_.has_shapes()) return {};
    std::optional<OrderRows> rows;
    if (graph.count() <= kMostTurned) {
      std::vector<Index> buffers;
      for (const CliqueMember& range : ranges_) buffers.push_back(range.buffer);
      rows.emplace(problem_, buffers, deadline_);
      if (!rows->make_order(deadline_)) return {};
    }
    const auto may_follow = [&](Index a, Index b) {
      if (rows) return rows->comes_after(a, b);
      return problem_.last(ranges_[at(a)].buffer) <= problem_.first(ranges_[at(b)].buffer);
    };
    auto found = heaviest_antichain(graph, may_follow, work, tick).value_or(std::vector<Index>{});
    return is_clique(graph, found) ? found : std::vector<Index>{};
  }

  static bool is_clique(const WeightedGraph& graph, const std::vector<Index>& of) {
    return std::all_of(of.begin(), of.end(), [&](Index a) {
      return std::all_of(of.begin(), of.end(), [&](Index b) { return a == b || graph.joined(a, b); });
    });
  }

  const Problem& problem_;
  const Deadline& deadline_;
  const std::vector<CliqueMember> ranges_;
  WeightedGraph graph_;
  std::vector<Bytes> padding_;
  bool any_padding_ = false;
};

constexpr std::size_t kMostGrown = 1000;  // ranges, of which cliques are grown

Clique sorted(Clique clique) {
  std::sort(clique.members.begin(), clique.members.end(), [](const CliqueMember& a, const CliqueMember& b) {
    return a.buffer != b.buffer ? a.buffer < b.buffer : a.begin < b.begin;
  });
  return clique;
}

}  // namespace

Clique heaviest_clique(const Problem& asked, const Limits& limits, std::int64_t work) {
  Clique best = clique_of_load(asked);
  const Problem problem = without_branches(asked);
  if (problem.conflicts() == nullptr && !problem.has_shapes()) return sorted(std::move(best));
  const Deadline deadline(limits);
  try {
    std::vector<CliqueMember> ranges = ranges_of(problem, worth_looking_at(problem, best.bytes, deadline));
    if (ranges.size() > kMostRanges) return sorted(std::move(best));
    best = Ranges(problem, std::move(ranges), deadline).heavier(std::move(best), work);
  } catch (const EndedError&) {
  }
  return sorted(std::move(best));
}

std::vector<Clique> some_cliques(const Problem& problem, const Limits& limits) {
  std::vector<CliqueMember> ranges = ranges_of(problem, with_bytes(problem));
  if (ranges.size() > kMostGrown) return {};
  const Deadline deadline(limits);
  return Ranges(problem, std::move(ranges), deadline).grown();
}

}  // namespace memplan
