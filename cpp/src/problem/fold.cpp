#include "problem/fold.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/groups.hpp"
#include "memplan/errors.hpp"
#include "problem/unbranched.hpp"

namespace memplan {

namespace {

std::string buffer(const Problem& problem, Index i) { return "buffer " + quoted(problem.name(i)); }

[[noreturn]] void refuse(const Problem& problem, Index a, Index b, const std::string& why) {
  throw ProblemError("together: " + buffer(problem, a) + " and " + buffer(problem, b) + " " + why);
}

constexpr Bytes kFarthest = kMaxBytes / 4;  // of two that lie together, so that sums of them are below int64

// What is asked of one offset: to be `rest` modulo `multiple`.
struct Residue {
  Bytes rest = 0;
  Bytes multiple = 1;
};

// Both at once, which can be where they agree modulo the greatest common divisor; nothing where the multiple is beyond
// int64.
std::optional<Residue> both(const Residue& a, const Residue& b) {
  const Bytes share = a.multiple / std::gcd(a.multiple, b.multiple);
  if (share > kFarthest / b.multiple) return std::nullopt;
  const Bytes multiple = share * b.multiple;
  const Residue &coarse = a.multiple < b.multiple ? b : a, &fine = a.multiple < b.multiple ? a : b;
  for (Bytes rest = coarse.rest; rest < multiple; rest += coarse.multiple)
    if (rest % fine.multiple == fine.rest) return Residue{rest, multiple};
  return std::nullopt;
}

}  // namespace

// Buffers at fixed distances, and where the whole that they make must lie.
struct Fold::Rigid {
  std::vector<Index> members;
  Bytes rest = 0, multiple = 1;  // the first byte of the lowest member lies at `rest` modulo `multiple`
  Bytes pin = kNowhere;          // where it lies, if one of them is pinned
  Index pinned = kNone;          // that one
  Bytes bytes = 0;
  Step first = 0, last = 0;
};

namespace {

// Distances among buffers, checked for agreement.
Groups grouped(const Problem& problem) {
  Groups groups(at(problem.count()));
  for (const Together& row : problem.together()) {
    if (row.a == row.b && row.distance != 0)
      throw ProblemError("together: " + buffer(problem, row.a) + " cannot be " + std::to_string(row.distance) +
                         " bytes from itself");
    if (row.distance > kFarthest || row.distance < -kFarthest)
      refuse(problem, row.a, row.b, "must be at most 2^61 bytes apart, got " + std::to_string(row.distance));
    if (groups.find(row.a) == groups.find(row.b)) {
      const Bytes known = groups.position(row.b) - groups.position(row.a);
      if (known != row.distance)
        refuse(problem, row.a, row.b,
               "cannot be " + std::to_string(row.distance) + " bytes apart: by other rows, it is " +
                   std::to_string(known));
    } else {
      groups.unite(row.a, row.b, row.distance);
      for (const Index i : {row.a, row.b})
        if (groups.position(i) > kFarthest || groups.position(i) < -kFarthest)
          refuse(problem, row.a, row.b, "are in a group that is more than 2^61 bytes wide");
    }
  }
  return groups;
}

// Pairs of members that share bytes at once.
void check_members(const Problem& problem, const std::vector<Index>& members, std::span<const Bytes> inside) {
  for (std::size_t x = 0; x < members.size(); ++x)
    for (std::size_t y = x + 1; y < members.size(); ++y) {
      const Index a = members[x], b = members[y];
      const std::string apart = "at " + std::to_string(inside[at(b)] - inside[at(a)]) + " bytes from each other share ";
      if (problem.size(a) == 0 || problem.size(b) == 0) continue;
      problem.for_each_part(a, [&](const Part& p) {
        problem.for_each_part(b, [&](const Part& q) {
          const Bytes begin = std::max(inside[at(a)] + p.begin, inside[at(b)] + q.begin);
          const Bytes end = std::min(inside[at(a)] + p.end, inside[at(b)] + q.end);
          const Step first = std::max(p.first, q.first), last = std::min(p.last, q.last);
          if (begin < end && first < last)
            refuse(problem, a, b,
                   apart + std::to_string(end - begin) + " bytes while both are alive in steps [" +
                       std::to_string(first) + ", " + std::to_string(last) + ")");
        });
      });
      if (!problem.kept_apart(a, b)) continue;
      const Bytes begin = std::max(inside[at(a)], inside[at(b)]);
      const Bytes end = std::min(inside[at(a)] + problem.size(a), inside[at(b)] + problem.size(b));
      if (begin < end) refuse(problem, a, b, apart + std::to_string(end - begin) + " bytes, and these two conflict");
    }
}

// Lives of the members, and what alignments and pins ask of the lowest byte.
template <class Rigid>
void measure(const Problem& problem, std::span<const Bytes> inside, Rigid& whole) {
  bool alive = false;
  for (const Index i : whole.members) {
    const Bytes align = problem.alignment(i);
    for (const Index j : whole.members)
      if ((inside[at(j)] - inside[at(i)]) % std::gcd(align, problem.alignment(j)) != 0)
        refuse(problem, i, j,
               "cannot be " + std::to_string(inside[at(j)] - inside[at(i)]) +
                   " bytes apart: their offsets are multiples of " + std::to_string(align) + " and of " +
                   std::to_string(problem.alignment(j)));
    const auto lies = both({whole.rest, whole.multiple}, {(align - inside[at(i)] % align) % align, align});
    if (!lies) refuse(problem, whole.members.front(), i, "have alignments whose common multiple is beyond 2^61");
    whole.rest = lies->rest;
    whole.multiple = lies->multiple;
    whole.bytes = std::max(whole.bytes, inside[at(i)] + problem.size(i));
    if (problem.size(i) > 0) {
      whole.first = alive ? std::min(whole.first, problem.first(i)) : problem.first(i);
      whole.last = alive ? std::max(whole.last, problem.last(i)) : problem.last(i);
      alive = true;
    }
    if (problem.pin(i) == kNowhere) continue;
    const Bytes pin = problem.pin(i) - inside[at(i)];
    if (whole.pinned != kNone && pin != whole.pin)
      refuse(problem, whole.pinned, i,
             "are pinned to offsets " + std::to_string(problem.pin(whole.pinned)) + " and " +
                 std::to_string(problem.pin(i)) + ", and cannot be " +
                 std::to_string(inside[at(i)] - inside[at(whole.pinned)]) + " bytes apart");
    if (pin < 0)
      refuse(problem, whole.members.front(), i,
             "cannot lie together: with the pin " + std::to_string(problem.pin(i)) +
                 " of the latter, the former begins " + std::to_string(-pin) + " bytes before the arena");
    whole.pin = pin;
    whole.pinned = i;
  }
  if (!alive) whole.bytes = 0, whole.last = whole.first + 1;
  if (whole.pinned == kNone) return;
  for (const Index i : whole.members)
    if ((whole.pin + inside[at(i)]) % problem.alignment(i) != 0)
      refuse(problem, whole.pinned, i,
             "cannot lie together: the pin " + std::to_string(problem.pin(whole.pinned)) +
                 " of the former puts the latter at offset " + std::to_string(whole.pin + inside[at(i)]) +
                 ", which is no multiple of " + std::to_string(problem.alignment(i)));
}

// Pairs that conflict with all their bytes whatever their lifetimes, where one of them is part of a larger whole, are
// said to be alive together at a step of their own after the last, in which nothing is reserved.
void leave_room_after(Step end, std::size_t steps, std::vector<Reserved>& reserved) {
  if (end > std::numeric_limits<Step>::max() - static_cast<Step>(steps))
    throw UnsupportedError(
        "buffers that lie together and conflict with others need steps of their own after the last, " +
        std::to_string(end));
  for (Reserved& range : reserved) range.last = std::min(range.last, end);
  std::erase_if(reserved, [](const Reserved& range) { return range.first >= range.last; });
}

}  // namespace

// What the folded problem is made of.
struct Fold::Columns {
  std::vector<Bytes> size = {}, alignment = {}, pins = {};
  std::vector<Step> first = {}, last = {};
  std::vector<std::string> names = {};
  std::vector<bool> shaped = {};
  std::vector<Part> parts = {};

  void add(const Problem& problem, const Rigid& whole) {
    size.push_back(whole.bytes);
    alignment.push_back(whole.multiple);
    pins.push_back(whole.pin == kNowhere || whole.members.size() == 1 ? whole.pin : whole.pin - whole.rest);
    first.push_back(whole.first);
    last.push_back(whole.last);
    const Index named = *std::min_element(whole.members.begin(), whole.members.end());
    if (!problem.names().empty()) names.push_back(problem.name(named));
  }

  Problem problem(Conflicts conflicts, std::vector<Reserved> reserved) {
    Problem folded(std::move(size), std::move(first), std::move(last), std::move(alignment), std::move(names));
    if (!parts.empty()) folded = folded.with_shapes(std::move(parts));
    if (conflicts.count() > 0) folded = folded.with_conflicts(std::move(conflicts));
    return folded.with_pins(std::move(pins), std::move(reserved));
  }
};

Fold::Fold(const Problem& problem) : whole_of_(at(problem.count()), kNone), inside_of_(at(problem.count()), 0) {
  lay_out(problem);
}

// Who lies in which whole, and where; wholes are in the order of their first members.
void Fold::lay_out(const Problem& problem) {
  Groups groups = grouped(problem);
  std::vector<Index> whole_of_top(at(problem.count()), kNone);
  std::vector<Rigid> wholes;
  for (Index i = 0; i < problem.count(); ++i) {
    Index& whole = whole_of_top[at(groups.find(i))];
    if (whole == kNone) {
      whole = static_cast<Index>(wholes.size());
      wholes.push_back({});
    }
    whole_of_[at(i)] = whole;
    inside_of_[at(i)] = groups.position(i);
    wholes[at(whole)].members.push_back(i);
  }
  for (Rigid& whole : wholes) {
    std::vector<Index> by_offset = whole.members;
    std::stable_sort(by_offset.begin(), by_offset.end(),
                     [&](Index a, Index b) { return inside_of_[at(a)] < inside_of_[at(b)]; });
    const Bytes lowest = inside_of_[at(by_offset.front())];
    for (const Index i : whole.members) inside_of_[at(i)] -= lowest;
    if (whole.members.size() > 1) {
      whole.members = std::move(by_offset);
      check_members(problem, whole.members, inside_of_);
      measure(problem, inside_of_, whole);
      for (const Index i : whole.members) inside_of_[at(i)] += whole.rest;
      whole.bytes += whole.bytes > 0 ? whole.rest : 0;
    } else {
      const Index i = whole.members.front();
      whole.multiple = problem.alignment(i);
      whole.pin = problem.pin(i);
      whole.bytes = problem.size(i);
      whole.first = problem.first(i);
      whole.last = problem.last(i);
    }
  }
  first_of_.assign(wholes.size(), kNone);
  for (Index i = problem.count() - 1; i >= 0; --i)
    if (problem.size(i) > 0) first_of_[at(whole_of_[at(i)])] = i;
  make(problem, wholes);
}

void Fold::make(const Problem& problem, const std::vector<Rigid>& wholes) {
  Columns columns;
  for (const Rigid& whole : wholes) columns.add(problem, whole);
  const auto single = [&](Index i) { return wholes[at(whole_of_[at(i)])].members.size() == 1; };
  const auto is_shaped = [&](const Rigid& whole) {
    return whole.bytes > 0 && (whole.members.size() > 1 || !problem.parts(whole.members[0]).empty());
  };
  for (const Rigid& whole : wholes) columns.shaped.push_back(is_shaped(whole));
  std::vector<std::pair<Index, Index>> beside;  // conflicts of members of larger wholes
  Conflicts conflicts(problem.conflicts() != nullptr ? static_cast<Index>(wholes.size()) : 0);
  for (Index a = 0; problem.conflicts() != nullptr && a < problem.count(); ++a)
    problem.conflicts()->for_each(a, [&](Index b) {
      if (b < a || whole_of_[at(a)] == whole_of_[at(b)] || problem.size(a) == 0 || problem.size(b) == 0) return;
      if (single(a) && single(b)) return conflicts.add(whole_of_[at(a)], whole_of_[at(b)]);
      beside.emplace_back(a, b);
      columns.shaped[at(whole_of_[at(a)])] = columns.shaped[at(whole_of_[at(b)])] = true;
    });
  const auto add_part = [&](Index i, Part part) {
    part.buffer = whole_of_[at(i)];
    part.begin += inside_of_[at(i)];
    part.end += inside_of_[at(i)];
    columns.parts.push_back(part);
  };
  for (Index i = 0; i < problem.count(); ++i)
    if (columns.shaped[at(whole_of_[at(i)])] && problem.size(i) > 0)
      problem.for_each_part(i, [&](const Part& part) { add_part(i, part); });
  std::vector<Reserved> reserved(problem.reserved().begin(), problem.reserved().end());
  if (!beside.empty()) {
    Step end = *std::max_element(columns.last.begin(), columns.last.end());
    leave_room_after(end, beside.size(), reserved);
    for (const auto& [a, b] : beside) {
      for (const Index i : {a, b}) {
        add_part(i, {i, 0, problem.size(i), end, end + 1});
        columns.last[at(whole_of_[at(i)])] = end + 1;
      }
      ++end;
    }
  }
  folded_ = columns.problem(std::move(conflicts), std::move(reserved));
}

std::vector<Bytes> Fold::unfolded(std::span<const Bytes> offsets) const {
  std::vector<Bytes> all(whole_of_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = offsets[at(whole_of_[i])] + inside_of_[i];
  return all;
}

std::vector<Bytes> Fold::folded(std::span<const Bytes> offsets) const {
  std::vector<Bytes> all(at(folded_->count()), kNowhere);
  for (std::size_t i = 0; i < whole_of_.size(); ++i)
    if (offsets[i] >= inside_of_[i]) all[at(whole_of_[i])] = offsets[i] - inside_of_[i];
  return all;
}

Problem Problem::with_together(std::vector<Together> together) const {
  for (const Together& row : together)
    for (const Index i : {row.a, row.b})
      if (i < 0 || i >= count())
        throw ProblemError("together must name buffers in [0, " + std::to_string(count()) + "), got " +
                           std::to_string(i));
  Problem problem = *this;
  problem.together_ = together.empty() ? nullptr : std::make_shared<const std::vector<Together>>(std::move(together));
  if (problem.together_ != nullptr) const Fold checked(memplan::without_branches(problem));
  return problem;
}

}  // namespace memplan
