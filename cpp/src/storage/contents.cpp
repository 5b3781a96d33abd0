#include "storage/contents.hpp"

#include <tuple>
#include <utility>

namespace memplan {

namespace {

constexpr std::size_t kMostPieces = 1'000'000;

// Where the bytes of a storage may lie.
constexpr unsigned kDonated = 1u << 0;    // in a donated input that is not placed
constexpr unsigned kGiven = 1u << 1;      // in another input or a weight that is not placed: only as a slice of it
constexpr unsigned kElsewhere = 1u << 2;  // in another storage that is not placed

// Per storage, whether it may become one with a graph output's, through whatever lies between.
std::vector<bool> joined_with_outputs(const Storages& storages, std::span<const Shared> possible) {
  std::vector<std::vector<Index>> next(storages.storages.size());
  for (const Shared& shared : possible) {
    const Index input = storages.storage_of[at(shared.view.input)],
                output = storages.storage_of[at(shared.view.output)];
    next[at(input)].push_back(output);
    next[at(output)].push_back(input);
  }
  std::vector<bool> joined(next.size(), false);
  std::vector<Index> waiting;
  const auto join = [&](Index s) {
    if (joined[at(s)]) return;
    joined[at(s)] = true;
    waiting.push_back(s);
  };
  for (Index s = 0; s < static_cast<Index>(next.size()); ++s)
    if (storages.storages[at(s)].kind == TensorKind::output) join(s);
  while (!waiting.empty()) {
    const Index s = waiting.back();
    waiting.pop_back();
    for (const Index other : next[at(s)]) join(other);
  }
  return joined;
}

}  // namespace

Contents::Contents(const Graph& graph, const Storages& storages, std::span<const Shared> possible)
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

// What an output shows, of which op says that it may be a slice of one input or a concatenation of some. Where it may
// be several things at once, it is not known.
void Contents::show(Index output, std::span<const Shared> choices) {
  std::vector<Piece> pieces;
  for (const Shared& choice : choices) known_[at(output)] = known_[at(output)] && add(choice, pieces);
  const auto overlap = [](const Piece& a, const Piece& b) { return b.begin < a.end; };
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  if (std::adjacent_find(pieces.begin(), pieces.end(), overlap) != pieces.end()) known_[at(output)] = false;
  pieces_count_ += pieces.size();
  if (pieces_count_ > kMostPieces) known_[at(output)] = false;
  if (known_[at(output)]) pieces_[at(output)] = std::move(pieces);
}

// Adds the pieces that the output shows with this choice; false where their content is not known.
bool Contents::add(const Shared& choice, std::vector<Piece>& pieces) const {
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

ArenaMembership::ArenaMembership(const Graph& graph, const Storages& storages, const StorageOptions& options,
                                 std::span<const Shared> possible)
    : outside_(storages.storages.size(), 0) {
  std::vector<std::vector<Link>> guests(storages.storages.size());  // per storage, what may be pulled into it
  for (const Shared& shared : possible) {
    const Index input = storages.storage_of[at(shared.view.input)];
    const Index output = storages.storage_of[at(shared.view.output)];
    const bool in_output = shared.how == Sharing::concat;
    const unsigned passes = shared.how == Sharing::inplace ? ~kGiven : ~0u;
    guests[at(in_output ? output : input)].push_back({in_output ? input : output, passes});
  }
  const std::vector<bool> near_output = joined_with_outputs(storages, possible);
  std::vector<bool> donated(graph.tensors().size(), false);
  for (const std::string& name : options.donate) donated[at(*graph.find(name))] = true;
  for (Index s = 0; s < static_cast<Index>(outside_.size()); ++s) {
    const Storage& storage = storages.storages[at(s)];
    const unsigned own = outside_alone(storage, donated[at(storage.root)], near_output[at(s)], options);
    if (own == kDonated && !guests[at(s)].empty()) donated_bytes_ += storage.bytes;
    placed_alone_.push_back(own == 0);
    spread(s, own, guests);
  }
}

bool ArenaMembership::perhaps_inside(Index storage) const {
  return placed_alone_[at(storage)] && (outside_[at(storage)] & ~kDonated) == 0;
}

// Where a storage may lie that others may be pulled into: one of intermediates is an output if one of those is.
unsigned ArenaMembership::outside_alone(const Storage& storage, bool donated, bool near_output,
                                        const StorageOptions& options) const {
  if (storage.excluded) return kElsewhere;
  const bool given = storage.kind == TensorKind::input || storage.kind == TensorKind::weight;
  if (given) return options.place.contains(storage.kind) ? 0 : donated ? kDonated : kGiven;
  const bool may_be_output =
      near_output && storage.kind == TensorKind::intermediate && !options.place.contains(TensorKind::output);
  return !options.place.contains(storage.kind) || may_be_output ? kElsewhere : 0;
}

void ArenaMembership::spread(Index storage, unsigned where, const std::vector<std::vector<Link>>& guests) {
  std::vector<std::pair<Index, unsigned>> waiting = {{storage, where}};
  while (!waiting.empty()) {
    const auto [s, bits] = waiting.back();
    waiting.pop_back();
    if ((bits & ~outside_[at(s)]) == 0) continue;
    outside_[at(s)] |= bits;
    for (const Link& link : guests[at(s)]) waiting.push_back({link.guest, bits & link.passes});
  }
}

}  // namespace memplan
