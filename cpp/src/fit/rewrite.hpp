// Rewrite: the graph of a schedule, with the copies of ops that run again.
//
// A copy of the op that writes t writes a new tensor "t~1", the next copy "t~2", and so on. Later ops read the newest.
// If an op reads a view of t, the view is made again too, at no cost: a view has no bytes. "t~out" moves t out, and
// "t~in" fetches it.
#pragma once

#include <vector>

#include "fit/schedule.hpp"
#include "memplan/graph.hpp"
#include "memplan/rematerialisation.hpp"

namespace memplan {

struct Rewritten {
  Graph graph;
  std::vector<Change> changes;
};

// An op of a unit that runs again; kNone if its tensor is fetched.
struct Copy {
  Index op = 0;
  std::size_t rerun = 0;  // its place among the reruns
};

// The ops of reruns, by stage; within a stage, in the order of `before_stage`.
std::vector<Copy> copies_of(const FitModel& model, const std::vector<Rerun>& reruns);

// `reruns` are by stage, and so are their copies. Throws as Graph does, if the copies can not run in that order.
Rewritten rewritten(const Graph& graph, const std::vector<OpFacts>& facts, const FitModel& model,
                    const std::vector<Rerun>& reruns, const std::vector<Copy>& copies);

}  // namespace memplan
