#include "pools/demand.hpp"

#include <algorithm>
#include <numeric>

namespace memplan {

namespace {

// Births after which something dies before the next birth: at each of them a largest set is in use. What is reserved
// in a pool with a capacity is in use too.
std::vector<Step> moments_of(const PoolProblems& problems) {
  const Problem& problem = problems.in(0);
  std::vector<Step> births, deaths, moments;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0)
      problem.for_each_part(i, [&](const Part& part) {
        births.push_back(part.first);
        deaths.push_back(part.last);
      });
  for (std::size_t p = 0; p < problems.pools(); ++p)
    for (const Reserved& range : problems.in(p).reserved()) {
      births.push_back(range.first);
      deaths.push_back(range.last);
    }
  std::sort(births.begin(), births.end());
  births.erase(std::unique(births.begin(), births.end()), births.end());
  std::sort(deaths.begin(), deaths.end());
  for (std::size_t b = 0; b < births.size(); ++b) {
    const auto death = std::upper_bound(deaths.begin(), deaths.end(), births[b]);
    if (death != deaths.end() && (b + 1 == births.size() || *death <= births[b + 1])) moments.push_back(births[b]);
  }
  return moments;
}

// What divides all offsets at which buffers that a pool takes, and parts of them, may begin; 1 where rounding up would
// be too much for int64.
Bytes unit_of(const PoolProblems& problems, std::size_t pool) {
  const Problem& problem = problems.in(pool);
  Bytes unit = 0;
  Index taken = 0;
  for (Index i = 0; i < problem.count(); ++i) {
    if (problems.cost_of(i, pool) == kRefused || problem.size(i) == 0) continue;
    unit = std::gcd(unit, problem.alignment(i));
    problem.for_each_part(i, [&](const Part& part) {
      unit = std::gcd(unit, part.begin);
      ++taken;
    });
  }
  Bytes sum = 0;
  for (const Bytes size : problem.size()) sum += size;  // which a problem keeps within int64
  return unit == 0 || unit > (kMaxBytes - sum) / (taken + 1) ? 1 : unit;
}

Bytes rounded_up(Bytes bytes, Bytes unit) { return bytes > kMaxBytes - unit ? bytes : align_up(bytes, unit); }

// Bytes of a pool that are not reserved at these moments, each run of them from a multiple of the unit to another.
std::vector<Bytes> room_at(const PoolProblems& problems, std::size_t pool, const std::vector<Step>& moments,
                           Bytes unit) {
  const Bytes capacity = problems.capacity(pool).value_or(0);
  const auto rows = problems.in(pool).reserved();
  std::vector<Reserved> reserved(rows.begin(), rows.end());
  std::sort(reserved.begin(), reserved.end(), [](const Reserved& a, const Reserved& b) { return a.begin < b.begin; });
  std::vector<Bytes> room(moments.size(), reserved.empty() ? rounded_up(capacity, unit) : 0);
  for (std::size_t k = 0; k < moments.size() && !reserved.empty(); ++k) {
    Bytes begin = 0;
    const auto add_until = [&](Bytes end) {
      if (begin < end) room[k] += rounded_up(end, unit) - rounded_up(begin, unit);
    };
    for (const Reserved& range : reserved) {
      if (range.first > moments[k] || moments[k] >= range.last) continue;
      add_until(std::min(range.begin, capacity));
      begin = range.end;
    }
    add_until(capacity);
  }
  return room;
}

}  // namespace

Demand::Demand(const PoolProblems& problems) {
  const Problem& problem = problems.in(0);
  const std::vector<Step> moments = moments_of(problems);
  sections_ = static_cast<Index>(moments.size());
  const auto section = [&](Step step) {
    return static_cast<Index>(std::lower_bound(moments.begin(), moments.end(), step) - moments.begin());
  };
  start_.push_back(0);
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size(i) > 0)
      problem.for_each_part(i, [&](const Part& part) {
        uses_.push_back({section(part.first), section(part.last), part.end - part.begin});
      });
    start_.push_back(uses_.size());
  }
  for (std::size_t p = 0; p < problems.pools(); ++p) {
    unit_.push_back(unit_of(problems, p));
    capacity_.push_back(room_at(problems, p, moments, unit_[p]));
  }
}

}  // namespace memplan
