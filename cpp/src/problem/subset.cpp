#include <algorithm>
#include <functional>
#include <string>

#include "base/groups.hpp"
#include "memplan/errors.hpp"
#include "memplan/problem.hpp"

namespace memplan {

namespace {

// Distances of those that are left from the first of their group, whatever links them; `position` is kNone for others.
std::vector<Together> together_among(const Problem& problem, std::span<const Index> buffers,
                                     std::span<const Index> position) {
  if (problem.together().empty()) return {};
  Groups groups(at(problem.count()));
  for (const Together& row : problem.together())
    if (groups.find(row.a) != groups.find(row.b)) groups.unite(row.a, row.b, row.distance);
  std::vector<Index> first(at(problem.count()), kNone);  // per representative
  std::vector<Together> rows;
  for (const Index i : buffers) {
    Index& leader = first[at(groups.find(i))];
    if (leader == kNone)
      leader = i;
    else
      rows.push_back({position[at(leader)], position[at(i)], groups.position(i) - groups.position(leader)});
  }
  return rows;
}

}  // namespace

Problem Problem::subset(std::span<const Index> buffers) const {
  const bool ascending = std::adjacent_find(buffers.begin(), buffers.end(), std::greater_equal()) == buffers.end();
  const bool has_pairs = conflicts_ != nullptr || together_ != nullptr;
  std::vector<Index> position(ascending && !has_pairs ? 0 : at(count()), kNone);
  Columns columns;
  std::vector<Part> own_parts;
  std::vector<Bytes> pins;
  std::vector<std::string> paths;
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    const Index i = buffers[k];
    if (i < 0 || i >= count() || (!ascending && position[at(i)] != kNone))
      throw ProblemError("a subset must name buffers in [0, " + std::to_string(count()) + "), each once, got " +
                         std::to_string(i));
    if (!position.empty()) position[at(i)] = static_cast<Index>(k);
    columns.size.push_back(size(i));
    columns.first.push_back(first(i));
    columns.last.push_back(last(i));
    columns.alignment.push_back(alignment(i));
    if (!names().empty()) columns.names.push_back(names()[at(i)]);
    for (Part part : parts(i)) {
      part.buffer = static_cast<Index>(k);
      own_parts.push_back(part);
    }
    if (has_pins()) pins.push_back(pin(i));
    if (has_branches()) paths.emplace_back(branch(i));
  }
  Problem found(std::move(columns));
  if (!own_parts.empty()) found = found.with_shapes(std::move(own_parts));
  if (conflicts_ != nullptr) {
    Conflicts among(found.count());
    std::vector<Index> before;
    for (Index k = 0; k < found.count(); ++k) {
      before.clear();
      conflicts_->for_each(buffers[at(k)], [&](Index other) {
        if (position[at(other)] != kNone && position[at(other)] < k) before.push_back(position[at(other)]);
      });
      std::sort(before.begin(), before.end());  // rows grow in ascending order
      for (const Index other : before) among.add(other, k);
    }
    found = found.with_conflicts(std::move(among));
  }
  if (!paths.empty()) found = found.with_branches(std::move(paths));
  if (fixed_ != nullptr) found = found.with_pins(std::move(pins), fixed_->reserved);
  auto rows = together_among(*this, buffers, position);
  return rows.empty() ? found : found.with_together(std::move(rows));
}

Problem Problem::with_columns(Columns columns) const {
  if (columns.size.size() != size().size())
    throw ProblemError("columns must be of the problem's " + std::to_string(count()) + " buffers, got " +
                       std::to_string(columns.size.size()));
  Problem found(std::move(columns));
  if (shapes_ != nullptr) found = found.with_shapes(shapes_->parts);
  found.conflicts_ = conflicts_;
  found.branches_ = branches_;
  if (fixed_ != nullptr) found = found.with_pins(fixed_->pins, fixed_->reserved);
  return together_ == nullptr ? found : found.with_together(*together_);
}

}  // namespace memplan
