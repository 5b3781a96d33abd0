#include "placing/neighbours.hpp"

#include <algorithm>

#include "problem/orders.hpp"

namespace memplan {

namespace {

// Calls f(a, b) once for each pair of buffers that have bytes and conflict.
template <class F>
void for_each_pair(const Problem& problem, const Deadline& deadline, F&& f) {
  const std::vector<Index> births = by_birth(problem);
  std::vector<Index> alive;
  for (Index born : births) {
    std::erase_if(alive, [&](Index i) { return problem.last(i) <= problem.first(born); });
    for (Index i : alive) f(i, born);
    deadline.tick(1 + alive.size());
    alive.push_back(born);
  }
  if (problem.conflicts() == nullptr) return;
  for (Index a : births) {
    problem.conflicts()->for_each(a, [&](Index b) {
      if (a < b && problem.size(b) > 0 && !problem.alive_together(a, b)) f(a, b);
    });
  }
}

}  // namespace

Neighbours::Neighbours(const Problem& problem, const Deadline& deadline) : start_(problem.size().size() + 1, 0) {
  for_each_pair(problem, deadline, [&](Index a, Index b) {
    ++start_[at(a) + 1];
    ++start_[at(b) + 1];
  });
  for (std::size_t i = 1; i < start_.size(); ++i) start_[i] += start_[i - 1];
  list_.resize(start_.back());
  std::vector<std::size_t> next(start_.begin(), start_.end() - 1);
  for_each_pair(problem, deadline, [&](Index a, Index b) {
    list_[next[at(a)]++] = b;
    list_[next[at(b)]++] = a;
  });
  const auto lower = deadline.ticking([](Index a, Index b) { return a < b; });
  for (Index i = 0; i < problem.count(); ++i)
    std::sort(list_.begin() + static_cast<std::ptrdiff_t>(start_[at(i)]),
              list_.begin() + static_cast<std::ptrdiff_t>(start_[at(i) + 1]), lower);
}

}  // namespace memplan
