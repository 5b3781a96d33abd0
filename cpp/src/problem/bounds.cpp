#include "memplan/bounds.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/sorting.hpp"
#include "problem/granules.hpp"
#include "problem/run_bytes.hpp"

namespace memplan {

namespace {

struct Lives {
  std::span<const Bytes> size;
  std::span<const Step> first;
  std::span<const Step> last;
};

// The bytes of one run: of all buffers, or where these are in branches, of the branches that need most.
class Alive {
 public:
  // `buffers`: per rectangle, its buffer; looked at where there are branches.
  Alive(const Problem& problem, std::vector<Index> buffers) : buffers_(std::move(buffers)) {
    if (problem.has_branches()) of_run_.emplace(problem.branches().paths());
  }

  void add(Index rectangle, Bytes bytes) {
    if (of_run_)
      of_run_->add(buffers_[at(rectangle)], bytes);
    else
      of_all_ += bytes;
  }
  Bytes bytes() const { return of_run_ ? of_run_->heaviest() : of_all_; }

 private:
  std::vector<Index> buffers_;
  std::optional<RunBytes> of_run_;
  Bytes of_all_ = 0;
};

// In granules, what is in use at a step. Parts of a buffer that touch count as one.
class AliveInGranules {
 public:
  AliveInGranules(Bytes granule, std::span<const Part> parts) : alive_(granule), parts_(parts) {}

  void add(Index part, Bytes bytes) {
    if (bytes > 0) add(parts_[at(part)]);
    if (bytes < 0) remove(parts_[at(part)]);
  }
  const InGranules& bytes() const { return alive_; }

 private:
  using Runs = std::map<Bytes, Bytes>;  // where a run of bytes ends, by where it begins

  void add(const Part& part) {
    Runs& runs = runs_[part.buffer];
    Bytes begin = part.begin, end = part.end;
    auto next = runs.lower_bound(end);
    if (next != runs.end() && next->first == end) {
      alive_.remove(end, next->second);
      end = next->second;
      next = runs.erase(next);
    }
    if (next != runs.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      alive_.remove(begin, part.begin);
    }
    runs[begin] = end;
    alive_.add(begin, end);
  }

  void remove(const Part& part) {
    Runs& runs = runs_[part.buffer];
    const auto [begin, end] = *std::prev(runs.upper_bound(part.begin));
    alive_.remove(begin, end);
    runs.erase(begin);
    for (const auto& [from, to] : {std::pair{begin, part.begin}, {part.end, end}}) {
      if (from == to) continue;
      runs[from] = to;
      alive_.add(from, to);
    }
  }

  InGranules alive_;
  std::span<const Part> parts_;
  std::unordered_map<Index, Runs> runs_;  // per buffer
};

// Calls visit(step, alive) for each step at which the load changes, ascending; what dies at a step leaves
// before what is born there comes.
template <class Sum, class Visit>
void sweep(const Lives& rectangles, Sum alive, Visit&& visit) {
  const auto& [size, first, last] = rectangles;
  const std::vector<Index> births = sorted_by(first);
  const std::vector<Index> deaths = sorted_by(last);
  const auto entry = [](auto column, Index i) { return column[at(i)]; };
  std::size_t born = 0;
  for (std::size_t dead = 0; dead < deaths.size();) {
    Step step = entry(last, deaths[dead]);
    if (born < births.size()) step = std::min(step, entry(first, births[born]));
    while (dead < deaths.size() && entry(last, deaths[dead]) == step) {
      alive.add(deaths[dead], -entry(size, deaths[dead]));
      ++dead;
    }
    while (born < births.size() && entry(first, births[born]) == step) {
      alive.add(births[born], entry(size, births[born]));
      ++born;
    }
    visit(step, alive.bytes());
  }
}

template <class Visit>
void sweep(const Problem& problem, Visit&& visit) {
  std::vector<Index> buffers;
  const auto add_buffer = [&](Index i) {
    if (problem.has_branches()) buffers.push_back(i);
  };
  if (!problem.has_shapes()) {
    for (Index i = 0; i < problem.count(); ++i) add_buffer(i);
    return sweep(Lives{problem.size(), problem.first(), problem.last()}, Alive(problem, std::move(buffers)), visit);
  }
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  for (Index i = 0; i < problem.count(); ++i) {
    problem.for_each_part(i, [&](const Part& part) {
      size.push_back(part.end - part.begin);
      first.push_back(part.first);
      last.push_back(part.last);
      add_buffer(i);
    });
  }
  sweep(Lives{size, first, last}, Alive(problem, std::move(buffers)), visit);
}

}  // namespace

LoadCurve load_curve(const Problem& problem) {
  LoadCurve curve;
  sweep(problem, [&](Step step, Bytes alive) {
    curve.step.push_back(step);
    curve.bytes.push_back(alive);
  });
  return curve;
}

Bytes load(const Problem& problem) {
  Bytes highest = 0;
  sweep(problem, [&](Step, Bytes alive) { highest = std::max(highest, alive); });
  return highest;
}

Bytes aligned_load(const Problem& problem) {
  Bytes highest = load(problem);
  const Bytes granule = granule_of(problem);
  if (granule == 1 || problem.has_branches()) return highest;
  std::vector<Part> parts;
  for (Index i = 0; i < problem.count(); ++i)
    problem.for_each_part(i, [&](const Part& part) { parts.push_back(part); });
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  for (const Part& part : parts) {
    size.push_back(part.end - part.begin);
    first.push_back(part.first);
    last.push_back(part.last);
  }
  sweep(Lives{size, first, last}, AliveInGranules(granule, parts), [&](Step, const InGranules& alive) {
    if (alive.most() > highest) highest = std::max(highest, alive.least());
  });
  return highest;
}

Bytes end_of_pins(const Problem& problem) {
  Bytes end = 0;
  for (Index i = 0; problem.has_pins() && i < problem.count(); ++i)
    if (problem.pin(i) != kNowhere) end = std::max(end, problem.pin(i) + problem.size(i));
  return end;
}

Bytes end_of_fixed(const Problem& problem) {
  Bytes end = end_of_pins(problem);
  for (const Reserved& range : problem.reserved()) end = std::max(end, range.end);
  return end;
}

TightestStep tightest_step(const Problem& problem) {
  TightestStep tightest;
  sweep(problem, [&](Step step, Bytes alive) {
    if (alive > tightest.bytes) tightest = {step, alive, {}};
  });
  std::vector<Bytes> of_node(problem.has_branches() ? problem.branches().nodes() : 0);
  for (Index i = 0; i < problem.count(); ++i) {
    Bytes bytes = 0;
    problem.for_each_part(i, [&](const Part& part) {
      if (part.first <= tightest.step && tightest.step < part.last) bytes += part.end - part.begin;
    });
    if (bytes > 0) tightest.users.push_back({i, bytes});
    if (problem.has_branches()) of_node[at(problem.branches().node_of(i))] += bytes;
  }
  if (problem.has_branches()) {
    const std::vector<bool> runs = problem.branches().heaviest_run(of_node);
    std::erase_if(tightest.users, [&](const auto& user) { return !runs[at(problem.branches().node_of(user.buffer))]; });
  }
  std::stable_sort(tightest.users.begin(), tightest.users.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return tightest;
}

std::int64_t overlapping_pairs(const Problem& problem) {
  const std::vector<Index> births = sorted_by(problem.first());
  const std::vector<Index> deaths = sorted_by(problem.last());
  std::int64_t pairs = 0;
  std::size_t dead = 0;
  for (std::size_t born = 0; born < births.size(); ++born) {
    while (dead < deaths.size() && problem.last(deaths[dead]) <= problem.first(births[born])) ++dead;
    pairs += static_cast<std::int64_t>(born - dead);
  }
  return pairs;
}

}  // namespace memplan
