// Storage: the bytes that several tensors share.
//
// The *root* tensor owns the bytes of a storage. The *members* of the storage are the root and all tensors inside its
// bytes:
//
//     0                                  root.bytes
//     ├───────────── root ──────────────┤
//          ├── view ──┤                          offset_of[view] = 6
//              ├─ view of the view ┤             offsets add up along the chain
//
// An op may demand that tensors share bytes, by aliases and overwrites. Such tensors always share bytes. An op may also
// permit sharing, in three ways: the output takes the bytes of an input (in place), the output is a slice of an input,
// or the output is a concatenation into which its inputs were already written. Such tensors share bytes *by choice*:
// only if this is safe and harmless.
//
// Safe means that no value is lost before its last read:
//
//   - In place. No later op uses a tensor in the bytes that the output takes. The op itself uses them only as inputs
//     that this output may overwrite. A permission is for one input, not for other names of the same bytes. None of
//     the tensors is a weight, a graph output, or a graph input that is not donated.
//   - Slice, and part of a concatenation. The tensors have the same values in the shared bytes. No op may overwrite
//     these bytes before the last use of any of the tensors.
//
// The layout may exclude a tensor from the arena. Then its whole storage is outside, and shares no bytes by choice.
//
// Harmless means that the load does not rise. For this, every storage counts in whole from its first write to its last
// read. For example, a small output gets bytes of its own if it would keep a large input alive across the peak.
//
// Plans with shapes free each byte after its last read. Their load does not rise either, if all outputs of ops are
// placed. If not, a tensor outside of the arena may share bytes with a placed tensor, and make it live longer.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"

namespace memplan {

// The kinds of storage that get a place in the arena. The caller keeps storages of other kinds elsewhere.
class Place {
 public:
  Place() : Place({TensorKind::intermediate, TensorKind::output, TensorKind::workspace}) {}
  Place(std::initializer_list<TensorKind> kinds) {
    for (TensorKind kind : kinds) add(kind);
  }
  void add(TensorKind kind) { placed_[static_cast<int>(kind)] = true; }
  bool contains(TensorKind kind) const { return placed_[static_cast<int>(kind)]; }
  bool operator==(const Place&) const = default;

 private:
  bool placed_[kTensorKinds] = {};
};

// Which tensors lie in the arena, and which may share bytes by choice.
struct StorageOptions {
  Place place = {};
  Bytes alignment = 1;  // of every buffer, and of every tensor that shares bytes by choice
  bool inplace = true;  // outputs may take the bytes of inputs, except in ops of these types:
  std::vector<std::string> disable_inplace_ops = {};  // "Add"; "aten.add" includes its overloads
  std::vector<std::string> donate = {};               // graph inputs whose bytes may be taken
  bool zero_copy = true;                              // slices and parts of concatenations may share bytes

  bool operator==(const StorageOptions&) const = default;
};

struct Storage {
  Index root = kNone;                          // the tensor that owns the bytes
  Bytes bytes = 0;                             // the root's size
  TensorKind kind = TensorKind::intermediate;  // the root's kind; output if any member is a graph output
  bool excluded = false;                       // the layout excludes a member from the arena

  // Whether the storage lies in the arena.
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

// The pairs of tensors that shall share bytes by choice. Without a value, memplan decides op by op, so that the load
// does not rise.
using Wanted = std::optional<std::span<const Shared>>;

struct Storages {
  std::vector<Storage> storages;  // in the order of their roots in the graph
  std::vector<Index> storage_of;  // per tensor
  std::vector<Bytes> offset_of;   // per tensor: bytes from the beginning of its storage
  std::vector<Shared> shared;     // by op
  Bytes unshared = 0;             // the sum of placed storages, without sharing by choice

  const Storage& of(Index tensor) const { return storages[at(storage_of[at(tensor)])]; }
};

// Groups the tensors of a graph into storages. If `wanted` has a value, the safe ones of these pairs share bytes by
// choice, and no others. O((reads + writes) log ops), plus, for each choice, the members in use of both storages.
// Throws GraphError for a donated name that is no input, and ProblemError for an alignment below 1.
Storages storages_of(const Graph& graph, const HappensBefore& order, const StorageOptions& options = {},
                     const Wanted& wanted = {});

// All pairs that may share bytes by choice in some plan, by op. All other sharing is never safe. Throws as
// storages_of().
std::vector<Shared> possible_sharing(const Graph& graph, const HappensBefore& order,
                                     const StorageOptions& options = {});

}  // namespace memplan
