#include "keep/fewest_moves.hpp"

#include <bit>

namespace memplan {

namespace {

constexpr std::int64_t kNodes = 10'000'000;  // of all searches for sets that hit

FewestMoves::Set one(int wish) { return FewestMoves::Set{1} << wish; }

}  // namespace

FewestMoves::FewestMoves(int wishes, int best, std::function<Answer(Set)> ask)
    : wishes_(wishes), best_(best), ask_(std::move(ask)) {}

int FewestMoves::run(int questions) {
  questions_ = questions;
  const Set all = wishes_ == kMostWishes ? ~Set{0} : one(wishes_) - 1;
  int size = 0, proven = 0;
  bool all_known = true;  // no answer was "unknown", so that every size below has been ruled out
  while (size < best_ && questions_ > 0) {
    Set gone = 0;
    if (!hit(0, size, gone)) {
      if (nodes_ >= kNodes) break;
      ++size;
      if (all_known) proven = size;
      continue;
    }
    const Set stays = all & ~gone;
    const Answer answer = ask(stays);
    if (answer == Answer::fits) break;
    all_known = all_known && answer == Answer::cannot;
    cores_.push_back(answer == Answer::cannot ? shrunk(stays) : stays);
  }
  return proven;
}

FewestMoves::Answer FewestMoves::ask(Set stays) {
  if (questions_ <= 0) return Answer::unknown;
  --questions_;
  return ask_(stays);
}

// Without wishes that are not needed for it.
FewestMoves::Set FewestMoves::shrunk(Set core) {
  for (Set rest = core; rest != 0; rest &= rest - 1) {
    const Set without = core & ~(rest & (~rest + 1));
    if (ask(without) == Answer::cannot) core = without;
  }
  return core;
}

// Some set that holds `chosen`, `left` more at most, and a wish of each core.
bool FewestMoves::hit(Set chosen, int left, Set& found) {
  if (++nodes_ >= kNodes) return false;
  Set core = 0;
  bool all_hit = true;
  for (const Set other : cores_) {
    if ((other & chosen) != 0) continue;
    if (all_hit || std::popcount(other) < std::popcount(core)) core = other;
    all_hit = false;
  }
  if (all_hit) {
    found = chosen;
    return true;
  }
  if (left == 0) return false;
  for (Set rest = core; rest != 0; rest &= rest - 1)
    if (hit(chosen | (rest & (~rest + 1)), left - 1, found)) return true;
  return false;
}

}  // namespace memplan
