#include "placing/section_lives.hpp"

#include <algorithm>
#include <numeric>

#include "placing/in_order.hpp"
#include "problem/max_tree.hpp"

namespace memplan {

SectionLives section_lives(const Problem& problem) {
  const auto count = problem.size().size();
  SectionLives lives{std::vector<Index>(count, 0), std::vector<Index>(count, 0), {}};
  std::vector<Index> births = with_bytes(problem);
  std::vector<Index> deaths = births;
  std::sort(births.begin(), births.end(), [&](Index a, Index b) { return problem.first(a) < problem.first(b); });
  std::sort(deaths.begin(), deaths.end(), [&](Index a, Index b) { return problem.last(a) < problem.last(b); });
  Bytes alive = 0;
  auto birth = births.begin();
  for (auto death = deaths.begin(); death != deaths.end();) {
    const Index section = lives.sections();
    for (; birth != births.end() && problem.first(*birth) < problem.last(*death); ++birth) {
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

std::vector<Bytes> load_covered(const SectionLives& lives) {
  const MaxTree loads(lives.load);
  std::vector<Bytes> covered(lives.begin.size());
  for (std::size_t i = 0; i < covered.size(); ++i) covered[i] = loads.max(at(lives.begin[i]), at(lives.end[i]));
  return covered;
}

}  // namespace memplan
