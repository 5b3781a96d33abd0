// RunBytes: the most bytes that any run has at a moment, while buffers in branches are born and die.
//
//     run ─┬─ switch if1 ─┬─ then 8      a branch has its own bytes, and those of the heaviest branch of each switch
//          │              └─ else 3      inside of it: here a run has 8 + 5
//          └─ switch if2 ─── then 5
//
// A birth or death changes the branches around the buffer, and no others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

class RunBytes {
 public:
  // Of buffers in these branches; branches.hpp says how they are written.
  explicit RunBytes(std::span<const std::string> paths);

  // Bytes of a buffer come, or go if negative. O(switches around it x branches of each).
  void add(Index buffer, Bytes bytes);

  Bytes heaviest() const { return branches_.front().bytes; }

 private:
  struct Branch {
    Index of = kNone;  // the switch; kNone for the first node: what is in every run
    Bytes bytes = 0;   // own, and of the heaviest branches of the switches inside
  };
  struct Switch {
    Index inside;  // the branch
    Bytes heaviest = 0;
    std::vector<Index> branches = {};
  };

  std::vector<Index> branch_of_;  // per buffer
  std::vector<Branch> branches_ = {{}};
  std::vector<Switch> switches_;
};

}  // namespace memplan
