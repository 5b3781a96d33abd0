#include "memories/demand.hpp"

#include <algorithm>
#include <numeric>

namespace memplan {

namespace {

// Births after which something dies before the next birth: at each of them a largest set is in use.
std::vector<Step> moments_of(const Problem& problem) {
  std::vector<Step> births, deaths, moments;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0)
      problem.for_each_part(i, [&](const Part& part) {
        births.push_back(part.first);
        deaths.push_back(part.last);
      });
  std::sort(births.begin(), births.end());
  births.erase(std::unique(births.begin(), births.end()), births.end());
  std::sort(deaths.begin(), deaths.end());
  for (std::size_t b = 0; b < births.size(); ++b) {
    const auto death = std::upper_bound(deaths.begin(), deaths.end(), births[b]);
    if (death != deaths.end() && (b + 1 == births.size() || *death <= births[b + 1])) moments.push_back(births[b]);
  }
  return moments;
}

// What divides all offsets of the buffers that a pool takes; 1 where rounding up would be too much for int64.
Bytes unit_of(const MemoryRequest& request, std::size_t pool) {
  Bytes unit = 0;
  Index taken = 0;
  for (Index i = 0; i < request.problem.count(); ++i) {
    if (request.cost_of(i, pool) == kRefused || request.problem.size(i) == 0) continue;
    unit = std::gcd(unit, std::lcm(request.problem.alignment(i), request.pools[pool].alignment));
    ++taken;
  }
  Bytes sum = 0;
  for (const Bytes size : request.problem.size()) sum += size;  // which a problem keeps within int64
  return unit == 0 || unit > (kMaxBytes - sum) / (taken + 1) ? 1 : unit;
}

}  // namespace

Demand::Demand(const MemoryRequest& request) {
  const Problem& problem = request.problem;
  const std::vector<Step> moments = moments_of(problem);
  sections_ = static_cast<Index>(moments.size());
  const auto section = [&](Step step) {
    return static_cast<Index>(std::lower_bound(moments.begin(), moments.end(), step) - moments.begin());
  };
  start_.push_back(0);
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size(i) > 0)
      problem.for_each_part(i, [&](const Part& part) {
        uses_.push_back({section(part.first), section(part.last), part.end - part.begin, problem.parts(i).empty()});
      });
    start_.push_back(uses_.size());
  }
  for (std::size_t p = 0; p < request.pools.size(); ++p) {
    unit_.push_back(unit_of(request, p));
    const Bytes capacity = request.pools[p].capacity.value_or(0);
    capacity_.push_back(capacity > kMaxBytes - unit_[p] ? capacity : align_up(capacity, unit_[p]));
  }
}

}  // namespace memplan
