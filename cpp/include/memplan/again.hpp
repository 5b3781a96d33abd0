// Again: what it does to run an op a second time, what that costs, and what was gained where it was done.
//
// What leaves the arena may be copied out, and fetched again, too. These are ops of types of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// What running an op again does.
enum class Again : std::uint8_t {
  same,     // gives what it gave before
  changes,  // changes the tensors that its outputs are views of, or without such outputs, its first input
  never     // gives something else, or has other effects
};

// What an op costs, and whether it may run again.
struct OpFacts {
  double cost = 0;  // finite, >= 0
  Again again = Again::same;
};

inline constexpr std::string_view kMoveOut = "memplan.move_out";  // reads a tensor, and keeps its bytes elsewhere
inline constexpr std::string_view kFetch = "memplan.fetch";       // writes a new tensor with these bytes

// Tensors that come back before an op.
struct Change {
  std::vector<std::string> tensors;  // by the names that they had
  std::vector<std::string> ops;      // that were added for it
  std::string after;                 // the op that used them last before
  std::string before;                // the op of the graph that runs next
  Bytes bytes = 0;
  double cost = 0;
  bool moved = false;  // out of the arena and back; else ops run again
};

}  // namespace memplan
