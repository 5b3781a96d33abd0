// Verify: is a plan right for a problem? The check shares neither code nor data structures with planners, so it does
// not repeat their mistakes. The only exception is one sort, whose result is checked.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

enum class ViolationKind : std::uint8_t { overlap, misaligned, outside, moved, reserved, parted };

std::string_view to_string(ViolationKind kind);

struct Violation {
  ViolationKind kind;
  Index buffer;
  Index other = kNone;  // the second buffer of an overlap
  std::string message;  // names, byte ranges and lifetimes
};

inline constexpr std::size_t kAllViolations = static_cast<std::size_t>(-1);

// Checks several plans of one problem. Work that does not depend on the plan is done once, so that a check is quick.
class Verifier {
 public:
  explicit Verifier(const Problem& problem);  // the problem must outlive this object; O(n log n)
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  // The same result as verify().
  std::vector<Violation> violations(std::span<const Bytes> offsets, Bytes capacity = kMaxBytes,
                                    std::size_t limit = kAllViolations) const;

 private:
  class Rectangles;

  const Problem& problem_;
  std::unique_ptr<const Rectangles> rectangles_;
};

// Returns the violations of a plan, at most `limit`, in this order:
//
//   - offsets that are negative, end beyond `capacity`, or are no multiple of the alignment
//   - pinned buffers at other offsets, reserved bytes in use, buffers at wrong distances
//   - pairs that share bytes although they are alive together or conflict; of shaped buffers, each such pair of parts
//
// A sweep over time: O((n + violations) log n). Throws ProblemError unless offsets has one entry per buffer.
std::vector<Violation> verify(const Problem& problem, std::span<const Bytes> offsets, Bytes capacity = kMaxBytes,
                              std::size_t limit = kAllViolations);

}  // namespace memplan
