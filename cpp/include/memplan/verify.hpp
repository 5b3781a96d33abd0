// Verify: is this plan right for this problem? Written apart from every planner, on purpose: it shares
// neither code nor data structures with them, so that a mistake there cannot hide itself here.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

enum class ViolationKind : std::uint8_t { overlap, misaligned, outside };

std::string_view to_string(ViolationKind kind);

struct Violation {
  ViolationKind kind;
  Index buffer;
  Index other = kNone;  // the second buffer of an overlap
  std::string message;  // names, byte ranges and lifetimes
};

inline constexpr std::size_t kAllViolations = static_cast<std::size_t>(-1);

// All violations of the plan, at most `limit` of them, in a fixed order: offsets that are negative, or end
// beyond `capacity`; offsets that are no multiple of the alignment; pairs alive together, or conflicting whatever
// their lifetimes, that share bytes; of shaped buffers, each pair of parts that does.
// A sweep over time: O((n + violations) log n). Throws ProblemError when offsets has not one entry per buffer.
std::vector<Violation> verify(const Problem& problem, std::span<const Bytes> offsets, Bytes capacity = kMaxBytes,
                              std::size_t limit = kAllViolations);

}  // namespace memplan
