// Joined: several methods as one problem. The steps of the methods come one after another. A shared tensor is one
// buffer, alive at all steps, whichever methods have it.
//
// If a buffer of a method holds nothing but a shared tensor, the shared buffer stands for it. If it holds more, it lies
// at a fixed distance from the shared buffer, and its shape has only its other bytes.
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
  Problem problem;                        // shared tensors; then the buffers of each method, as "method/buffer"
  std::vector<std::vector<Index>> place;  // per method and buffer: its position in the problem
};

// The least common multiple of two alignments; throws ProblemError if int64 does not hold it.
Bytes common_alignment(Bytes a, Bytes b);

// Throws ProblemError if a shared tensor is pinned to two offsets, or if int64 does not hold the number of all steps.
// O(n log n) for n buffers, parts and conflicts, and O(parts · shared tensors) for a buffer with both.
Joined joined(std::span<const MethodProblem> methods, std::span<const SharedBytes> shared);

}  // namespace memplan
