// Fewest moves: of some wishes, the fewest that have to go for the others to be kept.
//
// A core is a set of wishes that cannot all stay, so at least one wish of each core has to go. The search lets the fewest
// wishes go that hit all known cores. If the others still cannot all stay, they hold a new core, which is made as small
// as it gets, and the search goes on. Otherwise the moves are the fewest: any plan has to hit all cores.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace memplan {

class FewestMoves {
 public:
  using Set = std::uint64_t;  // of wishes
  enum class Answer { fits, cannot, unknown };
  static constexpr int kMostWishes = 64;

  // `ask` says whether some wishes can all stay. `best`: so many moves are known to do.
  FewestMoves(int wishes, int best, std::function<Answer(Set)> ask);

  // Asks so often at most. Returns how many moves are needed at least: proven.
  int run(int questions);

 private:
  Answer ask(Set stays);
  Set shrunk(Set core);
  bool hit(Set chosen, int left, Set& found);

  const int wishes_;
  const int best_;
  const std::function<Answer(Set)> ask_;
  std::vector<Set> cores_;
  int questions_ = 0;
  std::int64_t nodes_ = 0;
};

}  // namespace memplan
