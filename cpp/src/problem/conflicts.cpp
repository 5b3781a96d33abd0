#include "memplan/conflicts.hpp"

#include <cstdint>
#include <string>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::uint64_t kMostConflictBytes = std::uint64_t{1} << 32;

}  // namespace

Conflicts::Conflicts(Index count) : count_(count), words_((static_cast<std::size_t>(count) + 63) / 64) {
  const std::uint64_t words = static_cast<std::uint64_t>(count) * words_;
  if (words > kMostConflictBytes / sizeof(std::uint64_t))
    throw ProblemError("conflicts among " + std::to_string(count) + " buffers would need " +
                       std::to_string(words * sizeof(std::uint64_t)) + " bytes; at most " +
                       std::to_string(kMostConflictBytes) + " are used");
  bits_.resize(static_cast<std::size_t>(words));
}

}  // namespace memplan
