// Buffers: from a graph to the Problem that a planner places, and the way back from buffers to tensors.
//
// A buffer is a placed storage or the workspace of an op. Storages come first, in the order of their roots in the
// graph, then workspaces, by op. If the bytes of a storage do not all live equally long, its buffer has a shape. If ops
// are on several streams, two buffers also conflict, unless all uses of one happen before the first write of the other.
// An op with ordered loops may write over an input that it is still reading. Such an op takes several steps.
#pragma once

#include <string>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/problem.hpp"
#include "memplan/storage.hpp"

namespace memplan {

struct Buffers {
  Problem problem;
  std::vector<Index> buffer_of_tensor;  // kNone if the tensor is not placed
  std::vector<Bytes>
      offset_in_buffer;  // per tensor: from the beginning of its buffer, or of its storage outside the arena
  std::vector<Index> root_of_tensor;       // per tensor: the root of its storage
  std::vector<Index> buffer_of_workspace;  // per op; kNone if it has no workspace, or one that is not placed
  std::vector<Shared> shared;              // tensors that share bytes by choice, by op
  std::vector<Index> donated;              // graph inputs whose bytes may be taken
  Bytes unshared = 0;                      // the sum of placed bytes, without sharing by choice
  std::vector<Step> begin_of_op = {};      // first step of each op, then the end; empty: op k runs at step k
};

// The name of the buffer of an op's workspace: "conv1.workspace", made longer if a tensor already has this name.
std::string workspace_name(const Graph& graph, const Op& op);

// Makes storages, lifetimes and the problem of a graph. Every buffer gets the alignment of `options`. If `wanted` has a
// value, its safe pairs share bytes by choice, and no others. Throws the errors of storages_of(), lifetimes_of() and
// Problem.
Buffers buffers_of(const Graph& graph, const StorageOptions& options = {}, const Wanted& wanted = {});

}  // namespace memplan
