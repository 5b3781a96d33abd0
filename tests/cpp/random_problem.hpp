// Small random problems on which much meets: few steps and few bytes, or an arena cut into pieces that fill it; with
// and without alignment, conflicts, partial orders, shapes and large numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "memplan/partial_order.hpp"
#include "memplan/problem.hpp"

// Of what more than rectangles there is: some of both in a few; or conflicts, a partial order, or shapes in each.
enum class Beyond { some, conflicts, order, shapes };

class RandomProblem {
 public:
  explicit RandomProblem(std::uint64_t seed, Beyond beyond = Beyond::some) : generator_(seed), beyond_(beyond) {
    below(2) ? scatter() : cut();
    if (beyond == Beyond::shapes) shorten();
    if (below(16) == 0) size_[pick()] = 0;
    align();
    shaped_ = size_.size() <= 5 && (beyond == Beyond::shapes || (below(2) && beyond == Beyond::some));
    if (!shaped_ && below(4) == 0) enlarge();
    if (below(8) == 0) spread();
  }

  memplan::Problem problem() {
    memplan::Problem problem(size_, first_, last_, alignment_);
    if (beyond_ == Beyond::conflicts || below(8) == 0) problem = problem.with_conflicts(conflicts());
    if (beyond_ == Beyond::order) problem = with_happens_before(problem, waits());
    return shaped_ ? problem.with_shapes(parts()) : problem;
  }

 private:
  using Bytes = memplan::Bytes;
  using Step = memplan::Step;
  using Index = memplan::Index;

  struct Piece {
    int first, last, begin, end;
    int wide() const { return last - first; }
    int high() const { return end - begin; }
  };

  int below(int limit) { return static_cast<int>(generator_() % static_cast<std::uint64_t>(limit)); }
  int count() const { return static_cast<int>(size_.size()); }
  std::size_t pick() { return memplan::at(below(count())); }

  void add(Bytes size, Step first, Step last) {
    size_.push_back(size);
    first_.push_back(first);
    last_.push_back(last);
  }

  void scatter() {
    const int buffers = 3 + below(12), steps = 2 + below(11), most = 2 << below(4);
    for (int i = 0; i < buffers; ++i) {
      const int first = below(steps);
      add(1 + below(most), first, first + 1 + below(steps - first));
    }
  }

  // An arena cut by lines across and pinwheels. Some pieces may be left out or changed then, so that there is slack, or
  // that the load cannot be had.
  void cut() {
    const std::size_t most = 3 + static_cast<std::size_t>(below(12));
    std::vector<Piece> pieces = {{0, 3 + below(6), 0, 4 + below(20)}};
    while (pieces.size() < most) {
      std::swap(pieces[memplan::at(below(static_cast<int>(pieces.size())))], pieces.back());
      const Piece piece = pieces.back();
      if (piece.wide() * piece.high() == 1) break;
      pieces.pop_back();
      const bool room = piece.wide() >= 3 && piece.high() >= 3 && pieces.size() + 5 <= most;
      room&& below(2) ? cut_pinwheel(pieces, piece) : cut_across(pieces, piece);
    }
    for (std::size_t k = pieces.size(); k > 1; --k)
      std::swap(pieces[memplan::at(below(static_cast<int>(k)))], pieces[k - 1]);
    if (below(3) == 0 && pieces.size() > 3) pieces.pop_back();
    for (const Piece& piece : pieces) add(piece.high(), piece.first, piece.last);
    for (int changes = below(2) ? below(4) : 0; changes > 0; --changes) {
      Bytes& size = size_[pick()];
      size = std::max<Bytes>(1, size + 1 - 2 * below(2));
    }
  }

  void cut_across(std::vector<Piece>& pieces, const Piece& whole) {
    Piece one = whole, other = whole;
    if (whole.wide() == 1 || (whole.high() > 1 && below(2)))
      one.end = other.begin = whole.begin + 1 + below(whole.high() - 1);
    else
      one.last = other.first = whole.first + 1 + below(whole.wide() - 1);
    pieces.insert(pieces.end(), {one, other});
  }

  // Four blades around a middle.
  void cut_pinwheel(std::vector<Piece>& pieces, const Piece& whole) {
    const auto [first, last, begin, end] = whole;
    const int left = first + 1 + below(whole.wide() - 2), right = left + 1 + below(last - left - 1);
    const int low = begin + 1 + below(whole.high() - 2), high = low + 1 + below(end - low - 1);
    pieces.push_back({left, right, low, high});
    if (below(2))
      pieces.insert(
          pieces.end(),
          {{first, right, begin, low}, {right, last, begin, high}, {left, last, high, end}, {first, left, low, end}});
    else
      pieces.insert(
          pieces.end(),
          {{left, last, begin, low}, {right, last, low, end}, {first, right, high, end}, {first, left, begin, high}});
  }

  // As few buffers as an oracle can place in every way.
  void shorten() {
    const std::size_t count = std::min<std::size_t>(size_.size(), 3 + memplan::at(below(3)));
    for (auto* column : {&size_, &first_, &last_}) column->resize(count);
    for (Bytes& size : size_) size = std::min<Bytes>(size, 12);
  }

  // One in eight has alignments of all kinds, one in eight the same for all.
  void align() {
    const int kind = below(8);
    const Bytes common = 2 + below(6);
    for (int i = 0; i < count(); ++i)
      alignment_.push_back(kind == 1 ? common : kind == 0 && below(2) ? 1 + below(8) : 1);
  }

  // Sizes of a common divisor, or all but it; up to near 2^62 in all.
  void enlarge() {
    const Bytes scale = below(2) ? 1024 : Bytes{1} << 52;
    const Bytes more = below(2);
    for (Bytes& size : size_) size = size == 0 ? 0 : size * scale + more;
  }

  // Steps far apart, from the least to nearly the largest.
  void spread() {
    for (std::vector<Step>* steps : {&first_, &last_})
      for (Step& step : *steps) step = std::numeric_limits<Step>::min() + step * (Step{1} << 59);
  }

  memplan::Conflicts conflicts() {
    memplan::Conflicts conflicts(count());
    for (int i = 1 + below(count()); i > 0; --i) {
      const Index a = below(count()), b = below(count());
      if (a != b) conflicts.add(a, b);
    }
    return conflicts;
  }

  // Lives, and some of the pairs of steps at which something begins or ends.
  std::vector<std::pair<Step, Step>> waits() {
    std::vector<std::pair<Step, Step>> pairs;
    std::vector<Step> steps = first_;
    steps.insert(steps.end(), last_.begin(), last_.end());
    for (int i = 0; i < count(); ++i) pairs.emplace_back(first_[memplan::at(i)], last_[memplan::at(i)]);
    for (int more = below(2 * count()); more > 0; --more) {
      const Step a = steps[memplan::at(below(static_cast<int>(steps.size())))];
      const Step b = steps[memplan::at(below(static_cast<int>(steps.size())))];
      if (a != b) pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
    return pairs;
  }

  // Strips of bytes with lives of their own, for about half of the buffers.
  std::vector<memplan::Part> parts() {
    std::vector<memplan::Part> parts;
    for (Index i = 0; i < count(); ++i) {
      if (below(2)) continue;
      const std::size_t k = memplan::at(i);
      for (Bytes begin = 0; begin < size_[k];) {
        const Bytes end = begin + 1 + below(static_cast<int>(size_[k] - begin));
        const Step half = (last_[k] - first_[k]) / 2;
        Step first = first_[k], last = last_[k];
        if (half > 0) below(2) ? first += half : last -= half;
        if (below(3)) parts.push_back({i, begin, end, first, last});
        begin = end;
      }
    }
    return parts;
  }

  std::mt19937_64 generator_;
  Beyond beyond_;
  std::vector<Bytes> size_, alignment_;
  std::vector<Step> first_, last_;
  bool shaped_ = false;
};
