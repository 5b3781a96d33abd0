// memplan: static memory planning for neural networks. Includes the whole public interface.
#pragma once

#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/graph.hpp"
#include "memplan/liveness.hpp"
#include "memplan/occupancy.hpp"
#include "memplan/plan.hpp"
#include "memplan/planner.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"
#include "memplan/replay.hpp"
#include "memplan/reuse.hpp"
#include "memplan/solve.hpp"
#include "memplan/storage.hpp"
#include "memplan/units.hpp"
#include "memplan/verify.hpp"
