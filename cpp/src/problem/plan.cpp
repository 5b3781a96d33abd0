#include "memplan/plan.hpp"

#include <algorithm>

#include "memplan/errors.hpp"

namespace memplan {

void require_one_per_buffer(const Problem& problem, std::span<const Bytes> offsets) {
  if (offsets.size() != problem.size().size())
    throw ProblemError("offsets must have one entry per buffer: the problem has " + std::to_string(problem.count()) +
                       ", offsets has " + std::to_string(offsets.size()));
}

Bytes peak_of(const Problem& problem, std::span<const Bytes> offsets) {
  require_one_per_buffer(problem, offsets);
  Bytes peak = 0;
  for (Index i = 0; i < problem.count(); ++i) peak = std::max(peak, saturated_add(offsets[at(i)], problem.size(i)));
  return peak;
}

}  // namespace memplan
