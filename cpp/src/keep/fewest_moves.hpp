// Fewest moves: a wish is an offset that a buffer should keep. A buffer whose wish is given up moves. How many have to
// move, so that all others can stay?
//
// A core is a set of wishes that cannot be kept together, so at least one wish of each core has to go. The search
// chooses the fewest wishes that include one of each known core. If the others cannot be kept together, they contain a
// new core. It is made as small as possible, and the search goes on. If they can, the chosen wishes are the fewest
// moves, because every plan has to give up one wish of each core.
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

  // `ask` says whether some wishes can be kept together. `best` moves are known to be enough.
  FewestMoves(int wishes, int best, std::function<Answer(Set)> ask);

  // Asks at most so many questions. Returns a proven lower bound of the moves.
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
