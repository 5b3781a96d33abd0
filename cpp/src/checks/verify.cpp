#include "memplan/verify.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "base/sorting.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

std::string half_open(std::int64_t begin, std::int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

// The byte ranges alive at one moment, by rank of their offsets: a tree whose nodes hold the highest end below
// them, so that the next range that reaches beyond an address is found in O(log n).
class AliveRanges {
 public:
  explicit AliveRanges(std::size_t ranks)
      : leaves_(std::bit_ceil(std::max<std::size_t>(ranks, 1))), highest_end_(2 * leaves_, kDead) {}

  void set(std::size_t rank, Bytes end) {
    std::size_t node = leaves_ + rank;
    highest_end_[node] = end;
    for (node /= 2; node > 0; node /= 2)
      highest_end_[node] = std::max(highest_end_[2 * node], highest_end_[2 * node + 1]);
  }

  void clear(std::size_t rank) { set(rank, kDead); }

  // The first rank >= from whose range is alive and ends after `address`; npos when there is none.
  std::size_t next(std::size_t from, Bytes address) const {
    std::size_t node = leaves_ + from;
    if (from >= leaves_) return npos;
    while (highest_end_[node] <= address) {  // climb until a subtree to the right has one
      while (node & 1) node /= 2;
      if (node == 0) return npos;
      ++node;
    }
    while (node < leaves_) {
      node *= 2;
      if (highest_end_[node] <= address) ++node;
    }
    return node - leaves_;
  }

  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

 private:
  static constexpr Bytes kDead = std::numeric_limits<Bytes>::min();
  std::size_t leaves_;
  std::vector<Bytes> highest_end_;
};

// Some of the numbers below a count: the nearest ones to a number are found in a look per level.
//
//     level 1   │ 1        0        1 │     a bit per word of the level below, that says whether it has any
//     level 0   │ 01…00    00…00   10…│     a bit per number
class SparseSet {
 public:
  explicit SparseSet(std::size_t count) {
    do {
      count = (count + kWordBits - 1) / kWordBits;
      levels_.emplace_back(count, 0);
    } while (count > 1);
  }

  void insert(std::size_t number) {
    for (std::vector<Word>& level : levels_) {
      Word& word = level[number / kWordBits];
      const bool was_empty = word == 0;
      word |= Word{1} << number % kWordBits;
      if (!was_empty) return;
      number /= kWordBits;
    }
  }

  void erase(std::size_t number) {
    for (std::vector<Word>& level : levels_) {
      Word& word = level[number / kWordBits];
      word &= ~(Word{1} << number % kWordBits);
      if (word != 0) return;
      number /= kWordBits;
    }
  }

  // The highest one below, and the lowest one above; kNobody where there is none.
  std::size_t below(std::size_t number) const {
    for (std::size_t k = 0; k < levels_.size(); ++k, number /= kWordBits) {
      const Word word = levels_[k][number / kWordBits] & ((Word{1} << number % kWordBits) - 1);
      if (word == 0) continue;
      number = number / kWordBits * kWordBits + highest(word);
      while (k-- > 0) number = number * kWordBits + highest(levels_[k][number]);
      return number;
    }
    return kNobody;
  }
  std::size_t above(std::size_t number) const {
    for (std::size_t k = 0; k < levels_.size(); ++k, number /= kWordBits) {
      const Word word = levels_[k][number / kWordBits] & (~Word{1} << number % kWordBits);
      if (word == 0) continue;
      number = number / kWordBits * kWordBits + at(std::countr_zero(word));
      while (k-- > 0) number = number * kWordBits + at(std::countr_zero(levels_[k][number]));
      return number;
    }
    return kNobody;
  }

  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

 private:
  using Word = std::uint64_t;
  static constexpr std::size_t kWordBits = 64;

  static std::size_t highest(Word word) { return at(std::bit_width(word)) - 1; }

  std::vector<std::vector<Word>> levels_;
};

}  // namespace

// What the buffers use of themselves and of time, by number: a buffer each, or where some have shapes, a part each.
class Verifier::Rectangles {
 public:
  explicit Rectangles(const Problem& problem) : problem_(problem) {
    if (problem.has_shapes()) {
      for (Index i = 0; i < problem.count(); ++i) {
        parts_.insert(parts_.end(), problem.parts(i).begin(), problem.parts(i).end());
        if (problem.parts(i).empty()) parts_.push_back({i, 0, problem.size(i), problem.first(i), problem.last(i)});
      }
    }
    visit_by([&](Index r) { return first(r); }, [&](Step step, Index r) { births_.push_back({step, r}); });
    visit_by([&](Index r) { return last(r); }, [&](Step step, Index r) { deaths_.push_back({step, r}); });
  }

  std::size_t count() const { return parts_.empty() ? at(problem_.count()) : parts_.size(); }
  Index buffer(Index r) const { return parts_.empty() ? r : parts_[at(r)].buffer; }
  Bytes begin(Index r) const { return parts_.empty() ? 0 : parts_[at(r)].begin; }  // within the buffer
  Bytes end(Index r) const { return parts_.empty() ? problem_.size(r) : parts_[at(r)].end; }
  Step first(Index r) const { return parts_.empty() ? problem_.first(r) : parts_[at(r)].first; }
  Step last(Index r) const { return parts_.empty() ? problem_.last(r) : parts_[at(r)].last; }

  // Those that have bytes, by birth and by death.
  struct Event {
    Step step;
    Index rectangle;
  };
  const std::vector<Event>& births() const { return births_; }
  const std::vector<Event>& deaths() const { return deaths_; }

  // Calls visit(key, rectangle) for those that have bytes, by key, then number. Planners sort in the same way; that
  // each is behind the one before it, and that there are as many as there should be, says that they are all there, in
  // order.
  template <class KeyOf, class Visit>
  void visit_by(KeyOf&& key_of, Visit&& visit) const {
    std::vector<std::int64_t> keys(count());
    std::vector<Index> order;
    order.reserve(count());
    for (std::size_t k = 0; k < count(); ++k) {
      const auto r = static_cast<Index>(k);
      keys[k] = key_of(r);
      if (has_bytes(r)) order.push_back(r);
    }
    const std::size_t expected = order.size();
    order = sorted_by(keys, std::move(order));
    bool in_order = order.size() == expected;
    std::int64_t key_before = std::numeric_limits<std::int64_t>::min();
    Index before = kNone;
    for (const Index r : order) {
      const std::int64_t key = key_of(r);
      in_order &= (key_before != key ? key_before < key : before < r) && has_bytes(r);
      visit(key, r);
      key_before = key;
      before = r;
    }
    if (!in_order) throw std::logic_error("verify: what has been sorted is not in order");
  }

 private:
  bool has_bytes(Index r) const { return problem_.size(buffer(r)) > 0; }

  const Problem& problem_;
  std::vector<Part> parts_;
  std::vector<Event> births_, deaths_;
};

namespace {

// One plan's check.
template <class Rectangles>
class Check {
 public:
  Check(const Problem& problem, const Rectangles& rectangles, std::span<const Bytes> offsets, Bytes capacity,
        std::size_t limit)
      : problem_(problem), rectangles_(rectangles), offsets_(offsets), capacity_(capacity), limit_(limit) {}

  std::vector<Violation> run() {
    for (Index i = 0; i < problem_.count() && !full(); ++i) check_alone(i);
    if (!full()) check_reserved();
    if (!full()) check_together();
    if (!full()) check_pairs();
    if (!full() && problem_.conflicts() != nullptr) check_conflicts();
    return std::move(found_);
  }

 private:
  struct InArena {
    Bytes begin;
    Bytes end;
    Index rectangle;
  };

  bool full() const { return found_.size() >= limit_; }
  Bytes begin(Index i) const { return offsets_[at(i)]; }

  // Where the buffer ends; an end beyond int64 is reported by check_alone and cut off here.
  Bytes end(Index i) const { return saturated_add(begin(i), problem_.size(i)); }

  std::string label(Index i) const { return "buffer " + quoted(problem_.name(i)); }

  void add(ViolationKind kind, Index buffer, Index other, std::string message) {
    if (!full()) found_.push_back({kind, buffer, other, std::move(message)});
  }

  void check_alone(Index i) {
    const auto where = [&] { return label(i) + " at offset " + std::to_string(begin(i)); };
    if (begin(i) < 0) {
      add(ViolationKind::outside, i, kNone, where() + " begins before the arena");
    } else if (problem_.size(i) > capacity_ || begin(i) > capacity_ - problem_.size(i)) {
      add(ViolationKind::outside, i, kNone,
          label(i) + " of " + std::to_string(problem_.size(i)) + " bytes at offset " + std::to_string(begin(i)) +
              " ends beyond the arena of " + std::to_string(capacity_) + " bytes");
    }
    if (problem_.alignment(i) > 1 && begin(i) % problem_.alignment(i) != 0)
      add(ViolationKind::misaligned, i, kNone, where() + " is not aligned to " + std::to_string(problem_.alignment(i)));
    if (problem_.pin(i) != kNowhere && problem_.pin(i) != begin(i))
      add(ViolationKind::moved, i, kNone, where() + " is pinned to offset " + std::to_string(problem_.pin(i)));
  }

  // Of each range, those that are born before its last step and die after its first.
  void check_reserved() {
    if (problem_.reserved().empty()) return;
    const auto& births = rectangles_.births();
    AliveRanges lives(births.size());
    for (std::size_t k = 0; k < births.size(); ++k) lives.set(k, rectangles_.last(births[k].rectangle));
    std::vector<Index> hit;
    for (const Reserved& range : problem_.reserved()) {
      hit.clear();
      for (std::size_t k = lives.next(0, range.first); k != AliveRanges::npos && births[k].step < range.last;
           k = lives.next(k + 1, range.first))
        if (const Index r = births[k].rectangle; low(r) < range.end && range.begin < high(r)) hit.push_back(r);
      std::sort(hit.begin(), hit.end());
      for (const Index r : hit) {
        if (full()) return;
        const Bytes begin = std::max(range.begin, low(r)), end = std::min(range.end, high(r));
        const Step first = std::max(range.first, rectangles_.first(r)),
                   last = std::min(range.last, rectangles_.last(r));
        add(ViolationKind::reserved, rectangles_.buffer(r), kNone,
            label(rectangles_.buffer(r)) + " at bytes " + half_open(low(r), high(r)) + " uses bytes " +
                half_open(begin, end) + " in steps " + half_open(first, last) + ", which are reserved");
      }
    }
  }

  void check_together() {
    for (const Together& row : problem_.together()) {
      const Bytes expected =
          saturated_add(begin(row.a), std::max<Bytes>(row.distance, 0)) + std::min<Bytes>(row.distance, 0);
      if (begin(row.b) == expected || full()) continue;
      add(ViolationKind::parted, row.a, row.b,
          label(row.b) + " at offset " + std::to_string(begin(row.b)) + " must begin " + std::to_string(row.distance) +
              " bytes after " + label(row.a) + " at offset " + std::to_string(begin(row.a)));
    }
  }

  // Where a rectangle begins and ends in the arena; ends beyond int64 are cut off, and reported by check_alone.
  Bytes low(Index r) const { return saturated_add(begin(rectangles_.buffer(r)), rectangles_.begin(r)); }
  Bytes high(Index r) const { return saturated_add(begin(rectangles_.buffer(r)), rectangles_.end(r)); }

  void check_pairs() {
    by_offset_.reserve(rectangles_.count());
    rank_.resize(rectangles_.count());
    rectangles_.visit_by([&](Index r) { return low(r); },
                         [&](Bytes begin, Index r) {
                           rank_[at(r)] = static_cast<Index>(by_offset_.size());
                           by_offset_.push_back({begin, high(r), r});
                         });
    if (problem_.has_branches() || !are_apart()) list_overlaps();
  }

  // Runs through time: born(rank) is called for what is born, after dead(rank) for what has died by then, until born
  // says false.
  template <class Dead, class Born>
  void live_through(Dead&& dead, Born&& born) const {
    auto next = rectangles_.deaths().begin();
    for (const auto& [step, r] : rectangles_.births()) {
      for (; next->step <= step; ++next) dead(at(rank_[at(next->rectangle)]));
      if (!born(at(rank_[at(r)]))) return;
    }
  }

  // Whether all that is alive together is. What is alive is apart, by what was seen before, so that who is born needs
  // to be apart from its neighbours alone.
  bool are_apart() const {
    SparseSet alive(by_offset_.size());
    bool apart = true;
    live_through([&](std::size_t rank) { alive.erase(rank); },
                 [&](std::size_t rank) {
                   const std::size_t below = alive.below(rank), above = alive.above(rank);
                   apart = (below == SparseSet::kNobody || by_offset_[below].end <= by_offset_[rank].begin) &&
                           (above == SparseSet::kNobody || by_offset_[above].begin >= by_offset_[rank].end);
                   alive.insert(rank);
                   return apart;
                 });
    return apart;
  }

  void list_overlaps() {
    AliveRanges alive(by_offset_.size());
    live_through([&](std::size_t rank) { alive.clear(rank); },
                 [&](std::size_t rank) {
                   const auto& [begin, end, r] = by_offset_[rank];
                   for (std::size_t k = alive.next(0, begin); k != AliveRanges::npos; k = alive.next(k + 1, begin)) {
                     if (by_offset_[k].begin >= end) break;
                     add_overlap(by_offset_[k].rectangle, r);
                     if (full()) return false;
                   }
                   alive.set(rank, end);
                   return true;
                 });
  }

  void add_overlap(Index x, Index y) {
    if (rectangles_.buffer(x) > rectangles_.buffer(y)) std::swap(x, y);
    const Index a = rectangles_.buffer(x), b = rectangles_.buffer(y);
    if (a == b) return;  // the parts of a shape are apart among themselves
    if (!problem_.coexist(a, b)) return;
    const std::string bytes = half_open(std::max(low(x), low(y)), std::min(high(x), high(y)));
    const std::string steps = half_open(std::max(rectangles_.first(x), rectangles_.first(y)),
                                        std::min(rectangles_.last(x), rectangles_.last(y)));
    add(ViolationKind::overlap, a, b,
        label(a) + " at bytes " + half_open(low(x), high(x)) + " and " + label(b) + " at bytes " +
            half_open(low(y), high(y)) + " share bytes " + bytes + " while both are alive in steps " + steps);
  }

  // Pairs that conflict whatever their lifetimes, and so with all their bytes.
  void check_conflicts() {
    for (Index a = 0; a < problem_.count() && !full(); ++a) {
      problem_.conflicts()->for_each(a, [&](Index b) {
        const Bytes shared = std::max(begin(a), begin(b));
        if (b < a || problem_.size(a) == 0 || problem_.size(b) == 0 || shared >= std::min(end(a), end(b))) return;
        const bool in_time = problem_.first(a) < problem_.last(b) && problem_.first(b) < problem_.last(a);
        if (in_time && !problem_.has_shapes() && problem_.coexist(a, b)) return;  // check_pairs has found it
        add(ViolationKind::overlap, a, b,
            label(a) + " at bytes " + half_open(begin(a), end(a)) + " and " + label(b) + " at bytes " +
                half_open(begin(b), end(b)) + " share bytes " + half_open(shared, std::min(end(a), end(b))) +
                ", and these two conflict");
      });
    }
  }

  const Problem& problem_;
  const Rectangles& rectangles_;
  std::span<const Bytes> offsets_;
  Bytes capacity_;
  std::size_t limit_;
  std::vector<Violation> found_;
  std::vector<InArena> by_offset_;  // rectangles that have bytes
  std::vector<std::size_t> rank_;   // per rectangle, its position there
};

}  // namespace

std::string_view to_string(ViolationKind kind) {
  switch (kind) {
    case ViolationKind::overlap: return "overlap";
    case ViolationKind::misaligned: return "misaligned";
    case ViolationKind::outside: return "outside";
    case ViolationKind::moved: return "moved";
    case ViolationKind::reserved: return "reserved";
    case ViolationKind::parted: return "parted";
  }
  return "unknown";
}

Verifier::Verifier(const Problem& problem)
    : problem_(problem), rectangles_(std::make_unique<const Rectangles>(problem)) {}

Verifier::~Verifier() = default;

std::vector<Violation> Verifier::violations(std::span<const Bytes> offsets, Bytes capacity, std::size_t limit) const {
  if (offsets.size() != at(problem_.count()))
    throw ProblemError("offsets must have one entry per buffer: the problem has " + std::to_string(problem_.count()) +
                       ", offsets has " + std::to_string(offsets.size()));
  return Check<Rectangles>(problem_, *rectangles_, offsets, capacity, limit).run();
}

std::vector<Violation> verify(const Problem& problem, std::span<const Bytes> offsets, Bytes capacity,
                              std::size_t limit) {
  return Verifier(problem).violations(offsets, capacity, limit);
}

}  // namespace memplan
