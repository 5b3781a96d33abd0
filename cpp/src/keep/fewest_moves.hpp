// Fewest moves: of some wishes, the fewest that have to go for the others to be kept.
//
// A core is a set of wishes that cannot all stay. Some wish of each core has to go. So the fewest that hit all known
// cores go; if the others still cannot all stay, that is a new core, made as small as it gets, and it goes on. Once the
// others stay, no fewer could go, for none that hit all cores are fewer.
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
