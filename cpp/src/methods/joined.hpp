// Joined: methods as one problem. Their steps come one after another, and what stays is alive throughout.
//
// What stays is one buffer, whichever methods have it. A method's buffer that holds nothing else is that buffer. One that
// holds more lies at a fixed distance from it, and has a shape: only its other bytes are in use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// Where a shared tensor lies in a method: its buffer there, kNone if the method does not have it, and its first byte.
struct Spot {
  Index buffer = kNone;
  Bytes inside = 0;
};

struct MethodProblem {
  std::string name;
  const Problem* problem;
  std::vector<Spot> spots;  // per shared tensor
};

struct SharedBytes {
  std::string name;
  Bytes bytes;
};

struct Joined {
  Problem problem;                        // what stays; then the buffers of each method, as "method/buffer"
  std::vector<std::vector<Index>> place;  // per method and buffer: which one of the problem it is
};

// The least common multiple of two alignments; throws ProblemError where int64 does not hold it.
Bytes common_alignment(Bytes a, Bytes b);

// Throws ProblemError where what stays is pinned to two offsets, or where all steps are more than int64 holds.
// O(n log n) for the buffers, parts and conflicts of all, and for the parts of a buffer those that stay in it.
Joined joined(std::span<const MethodProblem> methods, std::span<const SharedBytes> shared);

}  // namespace memplan
