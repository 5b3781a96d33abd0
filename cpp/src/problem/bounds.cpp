#include "memplan/bounds.hpp"

#include <algorithm>
#include <numeric>

namespace memplan {

namespace {

std::vector<Index> sorted_by(std::span<const Step> key) {
  std::vector<Index> order(key.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::sort(order.begin(), order.end(), [key](Index a, Index b) { return key[at(a)] < key[at(b)]; });
  return order;
}

struct Lives {
  std::span<const Bytes> size;
  std::span<const Step> first;
  std::span<const Step> last;
};

// Calls visit(step, alive) for each step at which the load changes, ascending; what dies at a step leaves
// before what is born there comes.
template <class Visit>
void sweep(const Lives& rectangles, Visit&& visit) {
  const auto& [size, first, last] = rectangles;
  const std::vector<Index> births = sorted_by(first);
  const std::vector<Index> deaths = sorted_by(last);
  const auto entry = [](auto column, Index i) { return column[at(i)]; };
  Bytes alive = 0;
  std::size_t born = 0;
  for (std::size_t dead = 0; dead < deaths.size();) {
    Step step = entry(last, deaths[dead]);
    if (born < births.size()) step = std::min(step, entry(first, births[born]));
    while (dead < deaths.size() && entry(last, deaths[dead]) == step) alive -= entry(size, deaths[dead++]);
    while (born < births.size() && entry(first, births[born]) == step) alive += entry(size, births[born++]);
    visit(step, alive);
  }
}

template <class Visit>
void sweep(const Problem& problem, Visit&& visit) {
  if (!problem.has_shapes()) return sweep(Lives{problem.size(), problem.first(), problem.last()}, visit);
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  for (Index i = 0; i < problem.count(); ++i) {
    problem.for_each_part(i, [&](const Part& part) {
      size.push_back(part.end - part.begin);
      first.push_back(part.first);
      last.push_back(part.last);
    });
  }
  sweep(Lives{size, first, last}, visit);
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

TightestStep tightest_step(const Problem& problem) {
  TightestStep tightest;
  sweep(problem, [&](Step step, Bytes alive) {
    if (alive > tightest.bytes) tightest = {step, alive, {}};
  });
  for (Index i = 0; i < problem.count(); ++i) {
    Bytes bytes = 0;
    problem.for_each_part(i, [&](const Part& part) {
      if (part.first <= tightest.step && tightest.step < part.last) bytes += part.end - part.begin;
    });
    if (bytes > 0) tightest.users.push_back({i, bytes});
  }
  std::stable_sort(tightest.users.begin(), tightest.users.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return tightest;
}

std::int64_t overlapping_pairs(const Problem& problem) {
  std::vector<Step> births(problem.first().begin(), problem.first().end());
  std::vector<Step> deaths(problem.last().begin(), problem.last().end());
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());
  std::int64_t pairs = 0;
  std::size_t dead = 0;
  for (std::size_t born = 0; born < births.size(); ++born) {
    while (dead < deaths.size() && deaths[dead] <= births[born]) ++dead;
    pairs += static_cast<std::int64_t>(born - dead);
  }
  return pairs;
}

}  // namespace memplan
