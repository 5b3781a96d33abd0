#include "memplan/verify.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

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

// What the buffers use of the arena and of time, by number: a buffer each, or where some have shapes, a part each.
// Ends beyond int64, which are reported elsewhere, are cut off there.
class Rectangles {
 public:
  Rectangles(const Problem& problem, std::span<const Bytes> offsets) : problem_(problem), offsets_(offsets) {
    if (!problem.has_shapes()) return;
    for (Index i = 0; i < problem.count(); ++i) {
      parts_.insert(parts_.end(), problem.parts(i).begin(), problem.parts(i).end());
      if (problem.parts(i).empty()) parts_.push_back({i, 0, problem.size(i), problem.first(i), problem.last(i)});
    }
  }

  std::size_t count() const { return parts_.empty() ? offsets_.size() : parts_.size(); }
  Index buffer(std::uint32_t r) const { return parts_.empty() ? static_cast<Index>(r) : parts_[r].buffer; }
  Bytes begin(std::uint32_t r) const { return saturated_add(offset(r), parts_.empty() ? 0 : parts_[r].begin); }
  Bytes end(std::uint32_t r) const { return saturated_add(offset(r), parts_.empty() ? size(r) : parts_[r].end); }
  Step first(std::uint32_t r) const { return parts_.empty() ? problem_.first(buffer(r)) : parts_[r].first; }
  Step last(std::uint32_t r) const { return parts_.empty() ? problem_.last(buffer(r)) : parts_[r].last; }

  // Those that have bytes, by key, then number.
  template <class Key>
  std::vector<std::uint32_t> sorted(Key&& key) const {
    std::vector<std::uint32_t> order;
    order.reserve(count());
    for (std::uint32_t r = 0; r < count(); ++r)
      if (size(r) > 0) order.push_back(r);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    return order;
  }

 private:
  Bytes offset(std::uint32_t r) const { return offsets_[at(buffer(r))]; }
  Bytes size(std::uint32_t r) const { return problem_.size(buffer(r)); }

  const Problem& problem_;
  std::span<const Bytes> offsets_;
  std::vector<Part> parts_;
};

class Verifier {
 public:
  Verifier(const Problem& problem, std::span<const Bytes> offsets, Bytes capacity, std::size_t limit)
      : problem_(problem), offsets_(offsets), capacity_(capacity), limit_(limit) {}

  std::vector<Violation> run() {
    for (Index i = 0; i < problem_.count() && !full(); ++i) check_alone(i);
    if (!full()) check_pairs();
    if (!full() && problem_.conflicts() != nullptr) check_conflicts();
    return std::move(found_);
  }

 private:
  bool full() const { return found_.size() >= limit_; }
  Bytes begin(Index i) const { return offsets_[at(i)]; }

  // Where the buffer ends; an end beyond int64 is reported by check_alone and cut off here.
  Bytes end(Index i) const { return saturated_add(begin(i), problem_.size(i)); }

  std::string label(Index i) const { return "buffer " + quoted(problem_.name(i)); }

  void add(ViolationKind kind, Index buffer, Index other, std::string message) {
    if (!full()) found_.push_back({kind, buffer, other, std::move(message)});
  }

  void check_alone(Index i) {
    const std::string where = " at offset " + std::to_string(begin(i));
    if (begin(i) < 0) {
      add(ViolationKind::outside, i, kNone, label(i) + where + " begins before the arena");
    } else if (problem_.size(i) > capacity_ || begin(i) > capacity_ - problem_.size(i)) {
      add(ViolationKind::outside, i, kNone,
          label(i) + " of " + std::to_string(problem_.size(i)) + " bytes" + where + " ends beyond the arena of " +
              std::to_string(capacity_) + " bytes");
    }
    if (begin(i) % problem_.alignment(i) != 0)
      add(ViolationKind::misaligned, i, kNone,
          label(i) + where + " is not aligned to " + std::to_string(problem_.alignment(i)));
  }

  void add_overlap(const Rectangles& all, std::uint32_t x, std::uint32_t y) {
    if (all.buffer(x) > all.buffer(y)) std::swap(x, y);
    const Index a = all.buffer(x), b = all.buffer(y);
    if (a == b) return;  // the parts of a shape are apart among themselves
    const std::string bytes = half_open(std::max(all.begin(x), all.begin(y)), std::min(all.end(x), all.end(y)));
    const std::string steps = half_open(std::max(all.first(x), all.first(y)), std::min(all.last(x), all.last(y)));
    add(ViolationKind::overlap, a, b,
        label(a) + " at bytes " + half_open(all.begin(x), all.end(x)) + " and " + label(b) + " at bytes " +
            half_open(all.begin(y), all.end(y)) + " share bytes " + bytes + " while both are alive in steps " + steps);
  }

  void check_pairs() {
    const Rectangles all(problem_, offsets_);
    const auto by_offset = all.sorted([&](std::uint32_t r) { return all.begin(r); });
    const auto by_birth = all.sorted([&](std::uint32_t r) { return all.first(r); });
    const auto by_death = all.sorted([&](std::uint32_t r) { return all.last(r); });
    std::vector<std::uint32_t> rank(all.count());
    for (std::size_t r = 0; r < by_offset.size(); ++r) rank[by_offset[r]] = static_cast<std::uint32_t>(r);

    AliveRanges alive(by_offset.size());
    std::size_t dead = 0;
    for (std::uint32_t born : by_birth) {
      while (dead < by_death.size() && all.last(by_death[dead]) <= all.first(born)) alive.clear(rank[by_death[dead++]]);
      const Bytes from = all.begin(born);
      for (std::size_t r = alive.next(0, from); r != AliveRanges::npos; r = alive.next(r + 1, from)) {
        if (all.begin(by_offset[r]) >= all.end(born)) break;
        add_overlap(all, by_offset[r], born);
        if (full()) return;
      }
      alive.set(rank[born], all.end(born));
    }
  }

  // Pairs that conflict whatever their lifetimes, and so with all their bytes.
  void check_conflicts() {
    for (Index a = 0; a < problem_.count() && !full(); ++a) {
      problem_.conflicts()->for_each(a, [&](Index b) {
        const Bytes shared = std::max(begin(a), begin(b));
        if (b < a || problem_.size(a) == 0 || problem_.size(b) == 0 || shared >= std::min(end(a), end(b))) return;
        const bool in_time = problem_.first(a) < problem_.last(b) && problem_.first(b) < problem_.last(a);
        if (in_time && !problem_.has_shapes()) return;  // check_pairs has found it
        add(ViolationKind::overlap, a, b,
            label(a) + " at bytes " + half_open(begin(a), end(a)) + " and " + label(b) + " at bytes " +
                half_open(begin(b), end(b)) + " share bytes " + half_open(shared, std::min(end(a), end(b))) +
                ", and these two conflict");
      });
    }
  }

  const Problem& problem_;
  std::span<const Bytes> offsets_;
  Bytes capacity_;
  std::size_t limit_;
  std::vector<Violation> found_;
};

}  // namespace

std::string_view to_string(ViolationKind kind) {
  switch (kind) {
    case ViolationKind::overlap: return "overlap";
    case ViolationKind::misaligned: return "misaligned";
    case ViolationKind::outside: return "outside";
  }
  return "unknown";
}

std::vector<Violation> verify(const Problem& problem, std::span<const Bytes> offsets, Bytes capacity,
                              std::size_t limit) {
  if (offsets.size() != at(problem.count()))
    throw ProblemError("offsets must have one entry per buffer: the problem has " + std::to_string(problem.count()) +
                       ", offsets has " + std::to_string(offsets.size()));
  return Verifier(problem, offsets, capacity, limit).run();
}

}  // namespace memplan
