#include "memplan/sharing_bound.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "memplan/liveness.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostPieces = 1'000'000;

// Bytes [begin, end) of a storage show bytes of an origin, from `from` on.
struct ShownPiece {
  Bytes begin;
  Bytes end;
  Index origin;  // the storage whose content it is
  Bytes from;
};

// Whose content each storage shows: its own, or where it may be a slice or a concatenation, that of others.
class Contents {
 public:
  Contents(const Graph& graph, const Storages& storages, std::span<const Shared> possible)
      : graph_(graph), storages_(storages), pieces_(storages.storages.size()), known_(storages.storages.size(), true) {
    std::vector<Shared> kept;
    for (const Shared& shared : possible)
      if (shared.how != Sharing::inplace) kept.push_back(shared);
    const auto shown = [&](const Shared& shared) { return std::tuple(shared.op, shared.view.output); };
    std::stable_sort(kept.begin(), kept.end(), [&](const Shared& a, const Shared& b) { return shown(a) < shown(b); });
    for (auto first = kept.begin(); first != kept.end();) {
      const auto last = std::find_if(first, kept.end(), [&](const Shared& s) { return shown(s) != shown(*first); });
      show(storage_of(first->view.output), {first, last});
      first = last;
    }
  }

  // Calls f(origin, begin, end) for the bytes [begin, end) of a storage, in their order; not at all where it is not
  // known whose content they are.
  template <class F>
  void for_each(Index storage, Bytes begin, Bytes end, F&& f) const {
    if (!known_[at(storage)]) return;
    const std::vector<ShownPiece>& pieces = pieces_[at(storage)];
    auto piece =
        std::partition_point(pieces.begin(), pieces.end(), [&](const ShownPiece& p) { return p.end <= begin; });
    for (; piece != pieces.end() && piece->begin < end; ++piece) {
      const Bytes from = std::max(begin, piece->begin), to = std::min(end, piece->end);
      if (begin < from) f(storage, begin, from);
      if (from < to) f(piece->origin, piece->from + (from - piece->begin), piece->from + (to - piece->begin));
      begin = to;
    }
    if (begin < end) f(storage, begin, end);
  }

 private:
  Index storage_of(Index tensor) const { return storages_.storage_of[at(tensor)]; }

  // What an output shows, of which op says that it may be a slice of one input or a concatenation of some. Where it may
  // be several things at once, it is not known.
  void show(Index output, std::span<const Shared> choices) {
    std::vector<ShownPiece> pieces;
    for (const Shared& choice : choices) known_[at(output)] = known_[at(output)] && add(choice, pieces);
    const auto overlap = [](const ShownPiece& a, const ShownPiece& b) { return b.begin < a.end; };
    std::sort(pieces.begin(), pieces.end(), [](const ShownPiece& a, const ShownPiece& b) { return a.begin < b.begin; });
    if (std::adjacent_find(pieces.begin(), pieces.end(), overlap) != pieces.end()) known_[at(output)] = false;
    pieces_count_ += pieces.size();
    if (pieces_count_ > kMostPieces) known_[at(output)] = false;
    if (known_[at(output)]) pieces_[at(output)] = std::move(pieces);
  }

  // Adds the pieces that the output shows with this choice; false where their content is not known.
  bool add(const Shared& choice, std::vector<ShownPiece>& pieces) const {
    const bool slice = choice.how == Sharing::slice;
    const View& view = choice.view;
    const Bytes size = graph_.tensor(slice ? view.output : view.input).bytes;
    const Bytes inside = storages_.offset_of[at(view.input)] + (slice ? view.offset : 0);
    Bytes begin = slice ? 0 : view.offset;
    for_each(storage_of(view.input), inside, inside + size, [&](Index origin, Bytes from, Bytes to) {
      pieces.push_back({begin, begin + (to - from), origin, from});
      begin += to - from;
    });
    return known_[at(storage_of(view.input))];
  }

  const Graph& graph_;
  const Storages& storages_;
  std::vector<std::vector<ShownPiece>> pieces_;  // per storage, by begin; the bytes between are its own
  std::vector<bool> known_;                      // per storage
  std::size_t pieces_count_ = 0;
};

// Where the bytes of a storage may lie, whatever is shared.
constexpr unsigned kDonated = 1u << 0;    // in a donated input that is not placed
constexpr unsigned kGiven = 1u << 1;      // in another input or a weight that is not placed: only as a slice of it
constexpr unsigned kElsewhere = 1u << 2;  // in another storage that is not placed

class Whereabouts {
 public:
  Whereabouts(const Graph& graph, const Storages& storages, const StorageOptions& options,
              std::span<const Shared> possible)
      : storages_(storages), options_(options), outside_(storages.storages.size(), 0) {
    std::vector<std::vector<Link>> guests(storages.storages.size());  // per storage, what it may be pulled into it
    for (const Shared& shared : possible) {
      const Index input = storages.storage_of[at(shared.view.input)];
      const Index output = storages.storage_of[at(shared.view.output)];
      const bool in_output = shared.how == Sharing::concat;
      const unsigned passes = shared.how == Sharing::inplace ? ~kGiven : ~0u;
      guests[at(in_output ? output : input)].push_back({in_output ? input : output, passes});
    }
    std::vector<bool> donated(graph.tensors().size(), false);
    for (const std::string& name : options.donate) donated[at(*graph.find(name))] = true;
    for (Index s = 0; s < static_cast<Index>(outside_.size()); ++s) {
      const Storage& storage = storages.storages[at(s)];
      const unsigned own = outside_alone(storage, donated[at(storage.root)]);
      if (own == kDonated && !guests[at(s)].empty()) donated_bytes_ += storage.bytes;
      placed_alone_.push_back(own == 0);
      spread(s, own, guests);
    }
  }

  // Whether a storage lies in the arena whatever is shared, or there or in a donated input.
  bool surely_inside(Index storage) const { return outside_[at(storage)] == 0; }
  bool perhaps_inside(Index storage) const {
    return placed_alone_[at(storage)] && (outside_[at(storage)] & ~kDonated) == 0;
  }
  Bytes donated_bytes() const { return donated_bytes_; }  // of donated inputs that something may lie in

 private:
  struct Link {
    Index guest;
    unsigned passes;  // where the host lies that the guest may lie too
  };

  // Where a storage may lie that others may be pulled into: one of intermediates is an output if one of those is.
  unsigned outside_alone(const Storage& storage, bool donated) const {
    const bool given = storage.kind == TensorKind::input || storage.kind == TensorKind::weight;
    if (given) return options_.place.contains(storage.kind) ? 0 : donated ? kDonated : kGiven;
    const bool may_be_output = storage.kind == TensorKind::intermediate && !options_.place.contains(TensorKind::output);
    return !options_.place.contains(storage.kind) || may_be_output ? kElsewhere : 0;
  }

  void spread(Index storage, unsigned where, const std::vector<std::vector<Link>>& guests) {
    std::vector<std::pair<Index, unsigned>> waiting = {{storage, where}};
    while (!waiting.empty()) {
      const auto [s, bits] = waiting.back();
      waiting.pop_back();
      if ((bits & ~outside_[at(s)]) == 0) continue;
      outside_[at(s)] |= bits;
      for (const Link& link : guests[at(s)]) waiting.push_back({link.guest, bits & link.passes});
    }
  }

  const Storages& storages_;
  const StorageOptions& options_;
  std::vector<unsigned> outside_;   // per storage
  std::vector<bool> placed_alone_;  // per storage: it is placed where it is part of no other
  Bytes donated_bytes_ = 0;
};

// Bytes over steps, from what is added to spans of steps.
class Curve {
 public:
  explicit Curve(const Graph& graph) : change_(static_cast<std::size_t>(std::max<Step>(graph.op_count(), 1)) + 1, 0) {}

  void add(Step first, Step last, Bytes bytes) {
    change_[static_cast<std::size_t>(first)] += bytes;
    change_[static_cast<std::size_t>(last)] -= bytes;
  }
  // Each content that some of the members show counts while one of them lives.
  void add(const std::vector<Strip>& members) {
    for (const Strip& strip : united(members)) add(strip.first, strip.last, strip.end - strip.begin);
  }
  std::vector<Bytes> bytes() const {
    std::vector<Bytes> bytes;
    Bytes sum = 0;
    for (Bytes change : change_) bytes.push_back(sum += change);
    bytes.pop_back();
    return bytes;
  }

 private:
  std::vector<Bytes> change_;  // per step, and one after
};

// Per op, the bytes of outputs that may be written over inputs while it runs.
std::vector<Bytes> written_over(const Graph& graph, std::span<const Shared> possible) {
  std::vector<std::pair<Index, Index>> outputs, inputs;  // op and tensor
  for (const Shared& shared : possible) {
    if (shared.how != Sharing::inplace) continue;
    outputs.emplace_back(shared.op, shared.view.output);
    inputs.emplace_back(shared.op, shared.view.input);
  }
  const auto per_op = [&](std::vector<std::pair<Index, Index>>& tensors) {
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
    std::vector<Bytes> bytes(graph.ops().size(), 0);
    for (const auto& [op, tensor] : tensors) bytes[at(op)] += graph.tensor(tensor).bytes;
    return bytes;
  };
  std::vector<Bytes> least = per_op(outputs);
  const std::vector<Bytes> taken = per_op(inputs);
  for (std::size_t k = 0; k < least.size(); ++k) least[k] = std::min(least[k], taken[k]);
  return least;
}

bool sum_fits(const Graph& graph) {
  std::optional<Bytes> sum = 0;
  for (const Tensor& tensor : graph.tensors()) sum = sum ? checked_add(*sum, tensor.bytes) : sum;
  for (const Op& op : graph.ops()) sum = sum ? checked_add(*sum, op.workspace) : sum;
  return sum.has_value();
}

}  // namespace

Bytes sharing_bound(const Graph& graph, const HappensBefore& order, const StorageOptions& options,
                    std::span<const Shared> possible) {
  if (!sum_fits(graph)) return 0;
  StorageOptions none = options;
  none.inplace = none.zero_copy = false;
  const Storages storages = storages_of(graph, order, none);
  const Contents contents(graph, storages, possible);
  const Whereabouts whereabouts(graph, storages, options, possible);
  const std::vector<Span> lives = lives_of(graph);

  std::vector<std::vector<Strip>> inside(storages.storages.size()), all(storages.storages.size());
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const Index s = storages.storage_of[at(t)];
    if (!whereabouts.perhaps_inside(s)) continue;
    const Bytes begin = storages.offset_of[at(t)];
    contents.for_each(s, begin, begin + graph.tensor(t).bytes, [&](Index origin, Bytes from, Bytes to) {
      const Strip strip{from, to, lives[at(t)].first, lives[at(t)].last};
      all[at(origin)].push_back(strip);
      if (whereabouts.surely_inside(s)) inside[at(origin)].push_back(strip);
    });
  }
  Curve surely(graph), perhaps(graph);
  for (std::size_t s = 0; s < all.size(); ++s) {
    surely.add(inside[s]);
    perhaps.add(all[s]);
  }
  const std::vector<Bytes> least = surely.bytes(), most = perhaps.bytes(), over = written_over(graph, possible);
  Bytes bound = 0;
  for (std::size_t k = 0; k < least.size(); ++k) {
    Bytes need = least[k] + std::max<Bytes>(most[k] - least[k] - whereabouts.donated_bytes(), 0);
    if (k < over.size()) {
      need -= over[k];
      if (options.place.contains(TensorKind::workspace)) need += graph.op(static_cast<Index>(k)).workspace;
    }
    bound = std::max(bound, need);
  }
  return bound;
}

}  // namespace memplan
