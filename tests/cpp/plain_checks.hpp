// Plain checks of plans: every pair of buffers, every pair of parts. They share nothing with the core's own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "memplan/problem.hpp"

namespace plain {

using memplan::at;
using memplan::Bytes;
using memplan::Index;
using memplan::Part;
using memplan::Problem;

inline Bytes offset_of(const std::vector<Bytes>& offsets, Index i) { return offsets[at(i)]; }

// The pairs that share bytes while both are alive.
inline std::size_t overlaps(const Problem& p, const std::vector<Bytes>& offsets) {
  std::size_t pairs = 0;
  for (Index a = 0; a < p.count(); ++a)
    for (Index b = 0; b < a; ++b) {
      const Bytes oa = offset_of(offsets, a), ob = offset_of(offsets, b);
      const bool in_time = p.first(a) < p.last(b) && p.first(b) < p.last(a);
      pairs += in_time && std::max(oa, ob) < std::min(oa + p.size(a), ob + p.size(b));
    }
  return pairs;
}

// The faults of two buffers of any problem, when they lie at these offsets: parts that share bytes while both are in
// use, and bytes shared by buffers that conflict.
inline std::size_t faults(const Problem& p, Index a, Bytes oa, Index b, Bytes ob) {
  const bool conflict = p.conflicts() != nullptr && p.conflicts()->contains(a, b);
  std::size_t found = conflict && std::max(oa, ob) < std::min(oa + p.size(a), ob + p.size(b));
  p.for_each_part(a, [&](const Part& x) {
    p.for_each_part(b, [&](const Part& y) {
      found += std::max(x.first, y.first) < std::min(x.last, y.last) &&
               std::max(oa + x.begin, ob + y.begin) < std::min(oa + x.end, ob + y.end);
    });
  });
  return found;
}

inline std::size_t faults(const Problem& p, const std::vector<Bytes>& offsets) {
  std::size_t found = 0;
  for (Index a = 0; a < p.count(); ++a)
    for (Index b = 0; b < a; ++b) found += faults(p, a, offset_of(offsets, a), b, offset_of(offsets, b));
  return found;
}

// Whether all offsets are multiples of the alignments, from 0 on.
inline bool aligned(const Problem& p, const std::vector<Bytes>& offsets) {
  for (Index i = 0; i < p.count(); ++i)
    if (offset_of(offsets, i) < 0 || offset_of(offsets, i) % p.alignment(i) != 0) return false;
  return true;
}

// Whether a plan of at most `capacity` bytes exists, by trying every aligned offset for every buffer: for a few buffers
// of a few bytes.
inline bool fits(const Problem& p, Bytes capacity, std::vector<Bytes> offsets = {}) {
  const Index i = static_cast<Index>(offsets.size());
  if (i == p.count()) return true;
  offsets.push_back(0);
  for (Bytes offset = 0; offset + p.size(i) <= capacity; offset += p.alignment(i)) {
    offsets.back() = offset;
    bool apart = true;
    for (Index b = 0; b < i && apart; ++b) apart = faults(p, i, offset, b, offset_of(offsets, b)) == 0;
    if (apart && fits(p, capacity, offsets)) return true;
    if (p.size(i) == 0) break;  // it may lie anywhere
  }
  return false;
}

}  // namespace plain
