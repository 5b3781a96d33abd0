// Between peaks: plans of programs whose load peaks twice, and that exchange most of their buffers in between.
//
//   load │╌╌╌┌──────┬╌╌╌╌╌╌┌──────┐      A step of training replaces its optimizer's states one by one. At the first
//        │   │ old ◣│      │◥ new │      peak all bytes are in use by old ones, at the last one by new ones. Old ones
//        │   ├──────┴──────┴──────┤      lie in the order of their deaths, new ones in that of their births, over what
//        │   │        both        │      lives at both. So new ones follow the bytes that become free.
//        └───┴──────┴──────┴──────┴─▶ step
//
// Buffers alive at neither peak are placed around these by greedy planners.
//
// O(n log n), and the greedy planners. Guarantee: none. It often ends at the load where searches do not: they would
// have to leave holes of the right sizes for buffers that are born a thousand births later.
#pragma once

#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// The lowest plan of this kind; empty if the load has one peak only, or old and new ones are in each other's way. The
// problem has no shapes, pins, branches, and no conflicts beyond lifetimes.
std::vector<Bytes> plan_between_peaks(const Problem& problem, Bytes enough, const Deadline& deadline);

}  // namespace memplan
