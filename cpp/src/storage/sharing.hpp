// Sharing: tensors that share bytes by choice. An output takes an input's bytes (in place), is a slice of an input, or
// is the concatenation that its inputs have been written into, if that is safe and does no harm; see
// memplan/storage.hpp.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/storage.hpp"
#include "storage/forming.hpp"

namespace memplan {

// Joins storages by choice, op by op, and returns the choices. If `wanted` has a value: joins its safe pairs, and no
// others, whatever that does to the load. Throws GraphError for a donated name that is no input.
std::vector<Shared> share(FormingStorages& storages, const Graph& graph, const HappensBefore& order,
                          const StorageOptions& options, const Wanted& wanted = {});

// Whether the options say that an op of this type may not write in place.
bool is_disabled(const Op& op, const StorageOptions& options);

}  // namespace memplan
