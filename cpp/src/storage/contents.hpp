// Contents: where a value may lie, for bounds that hold whichever tensors share bytes by choice.
//
//     a ┌──────┐  concat ─▶ c ┌──────┬────┐        c shows the contents of a and b. It may lie in the same bytes, or be
//     b ┌────┐ ┘              │ of a │of b│        a copy. A bound counts each content once, so it holds in both cases.
//       └────┘                └──────┴────┘
//
// In the storages below, tensors share bytes only if they must.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// Whose content each storage shows: its own; or that of others, if it may be a slice or a concatenation.
class Contents {
 public:
  // `graph` and `storages` outlive it. It keeps a million pieces at most; concatenations beyond these are not known.
  Contents(const Graph& graph, const Storages& storages, std::span<const Shared> possible);

  // Calls f(origin, from, to) for each piece of the bytes [begin, end) of a storage, in their order: it shows the bytes
  // [from, to) of the storage `origin`. No call if the storage is not known.
  template <class F>
  void for_each(Index storage, Bytes begin, Bytes end, F&& f) const {
    if (!known_[at(storage)]) return;
    const std::vector<Piece>& pieces = pieces_[at(storage)];
    auto piece = std::partition_point(pieces.begin(), pieces.end(), [&](const Piece& p) { return p.end <= begin; });
    for (; piece != pieces.end() && piece->begin < end; ++piece) {
      const Bytes from = std::max(begin, piece->begin), to = std::min(end, piece->end);
      if (begin < from) f(storage, begin, from);
      if (from < to) f(piece->origin, piece->from + (from - piece->begin), piece->from + (to - piece->begin));
      begin = to;
    }
    if (begin < end) f(storage, begin, end);
  }

 private:
  // Bytes [begin, end) of a storage show bytes of an origin, from `from` on.
  struct Piece {
    Bytes begin;
    Bytes end;
    Index origin;  // the storage whose content it is
    Bytes from;
  };

  Index storage_of(Index tensor) const { return storages_.storage_of[at(tensor)]; }
  void show(Index output, std::span<const Shared> choices);
  bool add(const Shared& choice, std::vector<Piece>& pieces) const;

  const Graph& graph_;
  const Storages& storages_;
  std::vector<std::vector<Piece>> pieces_;  // per storage, by begin; the bytes between are its own
  std::vector<bool> known_;                 // per storage
  std::size_t pieces_count_ = 0;
};

// Where the bytes of each storage may lie: in the arena, or outside of it in an input, an output or a weight.
class ArenaMembership {
 public:
  ArenaMembership(const Graph& graph, const Storages& storages, const StorageOptions& options,
                  std::span<const Shared> possible);

  // Whether a storage lies in the arena under every choice of sharing, or in an input that StorageOptions::donate
  // names.
  bool surely_inside(Index storage) const { return outside_[at(storage)] == 0; }
  bool perhaps_inside(Index storage) const;               // under some choice
  Bytes donated_bytes() const { return donated_bytes_; }  // of inputs that `donate` names and that others may lie in

 private:
  struct Link {
    Index guest;      // in the list of a host storage: one that may be put into it
    unsigned passes;  // bits of places outside: if the host lies in one of them, the guest may lie there too
  };

  unsigned outside_alone(const Storage& storage, bool donated, bool near_output, const StorageOptions& options) const;
  void spread(Index storage, unsigned where, const std::vector<std::vector<Link>>& guests);

  std::vector<unsigned> outside_;   // per storage
  std::vector<bool> placed_alone_;  // per storage: it lies in the arena if it shares bytes with no other storage
  Bytes donated_bytes_ = 0;
};

}  // namespace memplan
