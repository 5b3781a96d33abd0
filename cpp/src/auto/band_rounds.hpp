// The portfolio of a band, for a member of the portfolio of the whole (auto/band_member.hpp).
#pragma once

#include <memory>

#include "auto/member.hpp"

namespace memplan {

// `problem` outlives it. Its effort is that of the whole.
std::unique_ptr<Rounds> rounds_of_band(const Problem& problem, std::uint64_t seed);

}  // namespace memplan
