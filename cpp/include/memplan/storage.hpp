// Storage: the bytes that tensors share.
//
// A root tensor owns the storage; its members are the root and everything that lives inside its bytes:
//
//     0                                  root.bytes
//     ├───────────── root ──────────────┤
//          ├── view ──┤                          offset_of[view] = 6
//              ├─ view of the view ┤             offsets add up along the chain
//
// Tensors that an op says MUST share bytes do: aliases and overwrites. Tensors that it says MAY share bytes do if that
// is safe and does no harm: an output takes an input's bytes (in place), an output is a slice of an input, or inputs
// have been written into the concatenation that is the output.
//
// Safe: no value is lost that is read again.
//
//   - In place: all tensors in the bytes that the output takes have been used for the last time before the op. Only the
//     op itself may use them, by names that it permits: a permission is of one op, one input and one output, and no
//     other name for the same bytes has it. None is a weight, a graph output, or a graph input not donated.
//   - A slice, or a part of a concatenation, keeps its value. So nothing may overwrite the bytes that they share before
//     the last use of what they held.
//
// What the layout excludes is not in the arena, and nor is the rest of its storage. It shares no bytes by choice, so
// that the caller knows how much it has to bring.
//
// Does no harm: the load does not rise, counted with every storage whole from its first write to its last read. So a
// small output that would keep a large input alive across the peak gets bytes of its own. With shapes, bytes are free as
// soon as nothing reads them again. Then the load does not rise either, if all that ops make is placed. If not, a tensor
// without a place of its own may prolong the life of one that has a place.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"

namespace memplan {

// Which kinds of storage get a place in the arena; the others stay where the caller keeps them.
class Place {
 public:
  Place() : Place({TensorKind::intermediate, TensorKind::output, TensorKind::workspace}) {}
  Place(std::initializer_list<TensorKind> kinds) {
    for (TensorKind kind : kinds) add(kind);
  }
  void add(TensorKind kind) { placed_[static_cast<int>(kind)] = true; }
  bool contains(TensorKind kind) const { return placed_[static_cast<int>(kind)]; }

 private:
  bool placed_[kTensorKinds] = {};
};

// What may be done with a graph's memory.
struct StorageOptions {
  Place place = {};
  Bytes alignment = 1;  // of every buffer, and of what shares a buffer by choice
  bool inplace = true;  // let outputs take the bytes of inputs, but not in ops of these types:
  std::vector<std::string> disable_inplace_ops = {};  // "Add"; "aten.add" is any overload of it
  std::vector<std::string> donate = {};               // graph inputs whose bytes may be taken
  bool zero_copy = true;                              // let slices and parts of concatenations share bytes
};

struct Storage {
  Index root = kNone;                          // the tensor that owns the bytes
  Bytes bytes = 0;                             // the root's size
  TensorKind kind = TensorKind::intermediate;  // the root's kind; output if any member is a graph output
  bool excluded = false;                       // the layout says so of a member

  // Whether it lies in the arena.
  bool placed(const Place& place) const { return !excluded && place.contains(kind); }
};

enum class Sharing : std::uint8_t { inplace, slice, concat };

std::string_view to_string(Sharing sharing);

// Two tensors of an op that share bytes by choice.
struct Shared {
  Sharing how;
  Index op;
  View view;  // as the op has it
};

// Who shall share bytes by choice; nothing: decided op by op, so that the load does not rise.
using Wanted = std::optional<std::span<const Shared>>;

struct Storages {
  std::vector<Storage> storages;  // in the order of their roots in the graph
  std::vector<Index> storage_of;  // per tensor
  std::vector<Bytes> offset_of;   // per tensor: bytes from the beginning of its storage
  std::vector<Shared> shared;     // by op
  Bytes unshared = 0;             // of all placed storages, if nothing shared bytes by choice

  const Storage& of(Index tensor) const { return storages[at(storage_of[at(tensor)])]; }
};

// Groups the tensors of a graph into storages. O((reads + writes) log ops), and for each choice, a look at the members
// of the storages concerned that are still in use. Throws GraphError for a donated name that is no input, and
// ProblemError for an alignment below 1. Of `wanted`, those that are safe share bytes, and no others.
Storages storages_of(const Graph& graph, const HappensBefore& order, const StorageOptions& options = {},
                     const Wanted& wanted = {});

// Every sharing by choice that some plan may have, by op; what is not among them is safe in none. Throws as
// storages_of.
std::vector<Shared> possible_sharing(const Graph& graph, const HappensBefore& order,
                                     const StorageOptions& options = {});

}  // namespace memplan
