#include "memplan/problem.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "memplan/errors.hpp"
#include "problem/rectangles.hpp"
#include "problem/reserved.hpp"

namespace memplan {

namespace {

void check_lengths(const Problem& problem) {
  const std::size_t n = problem.size().size();
  if (n > static_cast<std::size_t>(std::numeric_limits<Index>::max()))
    throw ProblemError("a problem holds at most 2^31 - 1 buffers, got " + std::to_string(n));
  const auto check = [n](std::size_t length, const char* column) {
    if (length != n)
      throw ProblemError(std::string(column) + " must have one entry per buffer: size has " + std::to_string(n) + ", " +
                         column + " has " + std::to_string(length));
  };
  check(problem.first().size(), "first");
  check(problem.last().size(), "last");
  check(problem.alignment().size(), "alignment");
  if (!problem.names().empty()) check(problem.names().size(), "names");
}

std::string cell(const char* column, Index i, const Problem& problem) {
  const std::string row = std::string(column) + "[" + std::to_string(i) + "]";
  return problem.names().empty() ? row : row + " (buffer " + quoted(problem.name(i)) + ")";
}

void check_rows(const Problem& problem) {
  const auto refuse = [&](const char* column, Index i, const std::string& expected, std::int64_t got) {
    throw ProblemError(cell(column, i, problem) + " must be " + expected + ", got " + std::to_string(got));
  };
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size(i) < 0) refuse("size", i, ">= 0", problem.size(i));
    if (problem.last(i) <= problem.first(i))
      refuse("last", i, "> first[" + std::to_string(i) + "] = " + std::to_string(problem.first(i)), problem.last(i));
    if (problem.alignment(i) < 1) refuse("alignment", i, ">= 1", problem.alignment(i));
  }
}

// Every planner stays below the sum of the sizes with their padding, so this is what has to fit into int64.
void check_total(const Problem& problem) {
  std::optional<Bytes> total = 0;
  for (Index i = 0; i < problem.count(); ++i) {
    total = checked_add(*total, problem.size(i));
    if (total && problem.size(i) > 0) total = checked_add(*total, problem.alignment(i) - 1);
    if (!total)
      throw ProblemError(
          "sizes with alignment padding must add up to at most 2^63 - 1 bytes; the sum exceeds that at " +
          cell("size", i, problem) + " = " + std::to_string(problem.size(i)));
  }
}

void check_names(const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) throw ProblemError("names[" + std::to_string(i) + "] must not be empty");
    if (!seen.insert(names[i]).second)
      throw ProblemError("names must be unique, got " + quoted(names[i]) + " again at names[" + std::to_string(i) +
                         "]");
  }
}

void check_part(const Problem& problem, const Part& part) {
  const auto refuse = [&](const std::string& expected) {
    throw ProblemError("parts: bytes [" + std::to_string(part.begin) + ", " + std::to_string(part.end) +
                       ") in steps [" + std::to_string(part.first) + ", " + std::to_string(part.last) + ") of buffer " +
                       std::to_string(part.buffer) + " must " + expected);
  };
  if (part.buffer < 0 || part.buffer >= problem.count())
    refuse("belong to one of the " + std::to_string(problem.count()) + " buffers");
  const Index i = part.buffer;
  if (part.begin < 0 || part.end <= part.begin || part.end > problem.size(i))
    refuse("lie within its " + std::to_string(problem.size(i)) + " bytes");
  if (part.first < problem.first(i) || part.last <= part.first || part.last > problem.last(i))
    refuse("lie within its life [" + std::to_string(problem.first(i)) + ", " + std::to_string(problem.last(i)) + ")");
}

void check_apart(const Part& a, const Part& b) {
  if (std::max(a.begin, b.begin) < std::min(a.end, b.end) && std::max(a.first, b.first) < std::min(a.last, b.last))
    throw ProblemError("parts of buffer " + std::to_string(a.buffer) + " overlap: bytes [" + std::to_string(a.begin) +
                       ", " + std::to_string(a.end) + ") in steps [" + std::to_string(a.first) + ", " +
                       std::to_string(a.last) + ") and bytes [" + std::to_string(b.begin) + ", " +
                       std::to_string(b.end) + ") in steps [" + std::to_string(b.first) + ", " +
                       std::to_string(b.last) + ")");
}

std::string span_of(std::int64_t begin, std::int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

// What is fixed, rectangle by rectangle.
struct FixedPart {
  Bytes begin, end;
  Step first, last;
  Index buffer;  // kNone: reserved
};

std::string label(const Problem& problem, const FixedPart& part) {
  const std::string bytes = span_of(part.begin, part.end);
  if (part.buffer != kNone) return "buffer " + quoted(problem.name(part.buffer)) + " at bytes " + bytes;
  const bool always = part.first == Reserved{}.first && part.last == Reserved{}.last;
  return "reserved bytes " + bytes + (always ? "" : " in steps " + span_of(part.first, part.last));
}

// Each with those that begin within it, where any overlap or branches may allow it.
void check_fixed_apart(const Problem& problem, std::vector<FixedPart> parts) {
  std::vector<Rectangle> rectangles;
  for (const FixedPart& part : parts) rectangles.push_back({part.begin, part.end, part.first, part.last});
  if (!any_overlap(rectangles)) return;
  std::sort(parts.begin(), parts.end(), [](const FixedPart& a, const FixedPart& b) {
    return std::tie(a.begin, a.buffer, a.first) < std::tie(b.begin, b.buffer, b.first);
  });
  for (std::size_t a = 0; a < parts.size(); ++a)
    for (std::size_t b = a + 1; b < parts.size() && parts[b].begin < parts[a].end; ++b) {
      const FixedPart &x = parts[a], &y = parts[b];
      const Step first = std::max(x.first, y.first), last = std::min(x.last, y.last);
      if (first >= last || (x.buffer == y.buffer && x.buffer != kNone)) continue;
      if (x.buffer != kNone && y.buffer != kNone && !problem.coexist(x.buffer, y.buffer)) continue;
      throw ProblemError("pins: " + label(problem, x) + " and " + label(problem, y) + " share bytes " +
                         span_of(y.begin, std::min(x.end, y.end)) + " in steps " + span_of(first, last));
    }
}

// Those that conflict whatever their lifetimes.
void check_conflicts_apart(const Problem& problem) {
  if (problem.conflicts() == nullptr) return;
  for (Index a = 0; a < problem.count(); ++a) {
    if (problem.pin(a) == kNowhere) continue;
    problem.conflicts()->for_each(a, [&](Index b) {
      if (b < a || problem.pin(b) == kNowhere) return;
      const Bytes begin = std::max(problem.pin(a), problem.pin(b));
      const Bytes end = std::min(problem.pin(a) + problem.size(a), problem.pin(b) + problem.size(b));
      if (begin < end)
        throw ProblemError("pins: buffer " + quoted(problem.name(a)) + " and buffer " + quoted(problem.name(b)) +
                           " share bytes " + span_of(begin, end) + ", and these two conflict");
    });
  }
}

template <class T>
bool same(std::span<const T> a, std::span<const T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

Problem::Problem(Columns columns) {
  if (columns.alignment.empty()) columns.alignment.assign(columns.size.size(), 1);
  columns_ = std::make_shared<const Columns>(std::move(columns));
  check_lengths(*this);
  check_rows(*this);
  check_total(*this);
  check_names(columns_->names);
}

Problem Problem::with_shapes(std::vector<Part> parts) const {
  Problem problem = without_shapes();
  if (parts.empty()) return problem;
  for (const Part& part : parts) check_part(*this, part);
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::tie(a.buffer, a.begin, a.first) < std::tie(b.buffer, b.begin, b.first);
  });
  std::vector<std::size_t> start(columns_->size.size() + 1, 0);
  for (const Part& part : parts) ++start[at(part.buffer) + 1];
  for (std::size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
  for (std::size_t a = 0; a < parts.size(); ++a)
    for (std::size_t b = a + 1; b < parts.size() && parts[b].buffer == parts[a].buffer && parts[b].begin < parts[a].end;
         ++b)
      check_apart(parts[a], parts[b]);
  problem.shapes_ = std::make_shared<const Shapes>(Shapes{std::move(parts), std::move(start)});
  return problem;
}

Problem Problem::with_conflicts(Conflicts conflicts) const {
  if (conflicts.count() != count())
    throw ProblemError("conflicts must be among the problem's " + std::to_string(count()) + " buffers, got " +
                       std::to_string(conflicts.count()));
  Problem problem = *this;
  problem.conflicts_ = conflicts.empty() ? nullptr : std::make_shared<const Conflicts>(std::move(conflicts));
  check_conflicts_apart(problem);
  return problem;
}

Problem Problem::with_pins(std::vector<Bytes> pins, std::vector<Reserved> reserved) const {
  if (!pins.empty() && pins.size() != size().size())
    throw ProblemError("pins must have one entry per buffer: size has " + std::to_string(count()) + ", pins has " +
                       std::to_string(pins.size()));
  if (std::all_of(pins.begin(), pins.end(), [](Bytes pin) { return pin == kNowhere; })) pins.clear();
  Bytes total = 0;
  for (Index i = 0; i < count(); ++i) total += size(i) > 0 ? size(i) + alignment(i) - 1 : 0;
  const auto check_room = [&](Bytes begin, Bytes bytes, const std::string& what) {
    const auto end = checked_add(begin, bytes);
    if (!end || !checked_add(*end, total))
      throw ProblemError("pins: " + what + " leaves no room below 2^63 for the " + std::to_string(total) +
                         " bytes of all buffers");
  };
  for (std::size_t r = 0; r < reserved.size(); ++r) {
    const Reserved& range = reserved[r];
    const std::string what = "reserved[" + std::to_string(r) + "]";
    if (range.begin < 0 || range.end <= range.begin || range.last <= range.first)
      throw ProblemError(what + " must be bytes begin < end from 0 on, in steps first < last, got bytes " +
                         span_of(range.begin, range.end) + " in steps " + span_of(range.first, range.last));
    check_room(range.end, 0, what);
  }
  reserved = united(std::move(reserved));
  Problem problem = *this;
  problem.fixed_ = pins.empty() && reserved.empty()
                       ? nullptr
                       : std::make_shared<const Fixed>(Fixed{std::move(pins), std::move(reserved)});
  std::vector<FixedPart> parts;
  for (Index i = 0; i < count(); ++i) {
    const Bytes pin = problem.pin(i);
    if (pin == kNowhere) continue;
    if (pin < 0) throw ProblemError(cell("pins", i, *this) + " must be >= 0, got " + std::to_string(pin));
    if (pin % alignment(i) != 0)
      throw ProblemError(cell("pins", i, *this) + " must be a multiple of " + std::to_string(alignment(i)) + ", got " +
                         std::to_string(pin));
    check_room(pin, size(i), cell("pins", i, *this) + " = " + std::to_string(pin));
    if (size(i) > 0)
      for_each_part(
          i, [&](const Part& part) { parts.push_back({pin + part.begin, pin + part.end, part.first, part.last, i}); });
  }
  for (const Reserved& range : problem.reserved())
    parts.push_back({range.begin, range.end, range.first, range.last, kNone});
  check_fixed_apart(problem, std::move(parts));
  check_conflicts_apart(problem);
  return problem;
}

Problem Problem::with_branches(std::vector<std::string> branches) const {
  if (!branches.empty() && branches.size() != size().size())
    throw ProblemError("branches must have one entry per buffer: size has " + std::to_string(count()) +
                       ", branches has " + std::to_string(branches.size()));
  for (Index i = 0; i < static_cast<Index>(branches.size()); ++i)
    if (const std::string wrong = wrong_branch(branches[at(i)]); !wrong.empty())
      throw ProblemError(cell("branches", i, *this) + " " + wrong);
  const bool none = std::all_of(branches.begin(), branches.end(), [](const std::string& b) { return b.empty(); });
  Problem problem = *this;
  problem.branches_ = none ? nullptr : std::make_shared<const Branches>(std::move(branches));
  if (fixed_ != nullptr) problem = problem.with_pins(fixed_->pins, fixed_->reserved);  // checked again
  return problem;
}

Problem Problem::without_shapes() const {
  Problem problem = *this;
  problem.shapes_ = nullptr;
  return problem;
}

std::string Problem::name(Index i) const { return names().empty() ? "#" + std::to_string(i) : names()[at(i)]; }

bool Problem::operator==(const Problem& other) const {
  return same(size(), other.size()) && same(first(), other.first()) && same(last(), other.last()) &&
         same(alignment(), other.alignment()) && names() == other.names() && has_shapes() == other.has_shapes() &&
         (!has_shapes() || shapes_->parts == other.shapes_->parts) &&
         (conflicts_ == nullptr) == (other.conflicts_ == nullptr) &&
         (conflicts_ == nullptr || *conflicts_ == *other.conflicts_) &&
         (fixed_ == nullptr) == (other.fixed_ == nullptr) && (fixed_ == nullptr || *fixed_ == *other.fixed_) &&
         same(together(), other.together()) && has_branches() == other.has_branches() &&
         (!has_branches() || branches() == other.branches());
}

}  // namespace memplan
