#include "problem/section_lives.hpp"

#include <algorithm>

#include "base/max_tree.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr std::size_t kTicksPerLifetime = 8;  // of the deadline

}  // namespace

SectionLives section_lives(const Problem& problem, const Deadline& deadline) {
  const auto count = problem.size().size();
  SectionLives lives{std::vector<Index>(count, 0), std::vector<Index>(count, 0), {}};
  const std::vector<Index> births = by_birth(problem);
  const std::vector<Index> deaths = by_death(problem);
  Bytes alive = 0;
  auto birth = births.begin();
  for (auto death = deaths.begin(); death != deaths.end();) {
    const Index section = lives.sections();
    for (; birth != births.end() && problem.first(*birth) < problem.last(*death); ++birth) {
      deadline.tick(kTicksPerLifetime);
      lives.begin[at(*birth)] = section;
      alive += problem.size(*birth);
    }
    lives.load.push_back(alive);
    const bool last = birth == births.end();
    for (; death != deaths.end() && (last || problem.last(*death) <= problem.first(*birth)); ++death) {
      lives.end[at(*death)] = section + 1;
      alive -= problem.size(*death);
    }
  }
  return lives;
}

std::vector<Bytes> load_covered(const SectionLives& lives, const Deadline& deadline) {
  const MaxTree loads(lives.load);
  std::vector<Bytes> covered(lives.begin.size());
  for (std::size_t i = 0; i < covered.size(); ++i) {
    deadline.tick(2 * kTicksPerLifetime);
    covered[i] = loads.max(at(lives.begin[i]), at(lives.end[i]));
  }
  return covered;
}

}  // namespace memplan
