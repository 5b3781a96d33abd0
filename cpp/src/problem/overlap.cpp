#include "memplan/overlap.hpp"

#include <algorithm>

namespace memplan {

namespace {

// Calls f(a, b) once for each pair of buffers that have bytes and conflict.
template <class F>
void for_each_pair(const Problem& problem, F&& f) {
  std::vector<Index> by_birth;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0) by_birth.push_back(i);
  std::sort(by_birth.begin(), by_birth.end(), [&](Index a, Index b) {
    return problem.first(a) != problem.first(b) ? problem.first(a) < problem.first(b) : a < b;
  });
  std::vector<Index> alive;
  for (Index born : by_birth) {
    std::erase_if(alive, [&](Index i) { return problem.last(i) <= problem.first(born); });
    for (Index i : alive) f(i, born);
    alive.push_back(born);
  }
  if (problem.conflicts() == nullptr) return;
  for (Index a : by_birth) {
    problem.conflicts()->for_each(a, [&](Index b) {
      const bool by_life = problem.first(a) < problem.last(b) && problem.first(b) < problem.last(a);
      if (a < b && problem.size(b) > 0 && !by_life) f(a, b);
    });
  }
}

}  // namespace

Neighbours::Neighbours(const Problem& problem) : start_(problem.size().size() + 1, 0) {
  for_each_pair(problem, [&](Index a, Index b) {
    ++start_[at(a) + 1];
    ++start_[at(b) + 1];
  });
  for (std::size_t i = 1; i < start_.size(); ++i) start_[i] += start_[i - 1];
  list_.resize(start_.back());
  std::vector<std::size_t> next(start_.begin(), start_.end() - 1);
  for_each_pair(problem, [&](Index a, Index b) {
    list_[next[at(a)]++] = b;
    list_[next[at(b)]++] = a;
  });
  for (Index i = 0; i < problem.count(); ++i)
    std::sort(list_.begin() + static_cast<std::ptrdiff_t>(start_[at(i)]),
              list_.begin() + static_cast<std::ptrdiff_t>(start_[at(i) + 1]));
}

}  // namespace memplan
