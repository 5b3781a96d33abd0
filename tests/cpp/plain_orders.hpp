// The least load of a small graph over all orders of its ops and all sharing by choice, by trying them all. It shares
// nothing with the core but the graph and the options.
//
// Every way to put tensors into the bytes of others is tried. For each, all sets of ops that may have run are walked
// through, byte by byte: each byte holds a token that says whose value it is. A step is legal if no token is lost that
// is used again.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace plain {

using memplan::at;
using memplan::Bytes;
using memplan::Graph;
using memplan::Index;
using memplan::Op;
using memplan::TensorKind;
using memplan::View;

using Ops = std::uint32_t;  // a set of ops

class Orders {
 public:
  static constexpr std::size_t kMostBytes = 384;    // of all tensors
  static constexpr std::size_t kMostWays = 20'000;  // to share bytes

  Orders(const Graph& graph, const memplan::StorageOptions& options) : graph_(graph), options_(options) {
    const std::size_t tensors = graph.tensors().size();
    root_.resize(tensors);
    offset_.assign(tensors, 0);
    users_.assign(tensors, 0);
    maker_.assign(tensors, -1);
    tokens_.resize(tensors);
    kept_.assign(tensors, false);
    for (Index t = 0; t < graph.tensor_count(); ++t) {
      root_[at(t)] = t;
      kept_[at(t)] = graph.tensor(t).kind == TensorKind::weight;
    }
    for (const Index t : graph.outputs()) kept_[at(t)] = true;
    for (Index k = 0; k < graph.op_count(); ++k) follow(k);
  }

  // Whether a sequence of the ops is one in which each comes after those that it waits for.
  bool legal(const std::vector<Index>& order) const {
    Ops done = 0;
    for (const Index k : order) {
      if (k < 0 || k >= graph_.op_count() || (done >> k & 1) != 0 || (waits_[at(k)] & ~done) != 0) return false;
      done |= Ops{1} << k;
    }
    return order.size() == graph_.ops().size();
  }

  // Nothing if there are too many bytes or ways.
  std::optional<Bytes> least_load() {
    Bytes bytes = 0;
    for (const auto& tensor : graph_.tensors()) bytes += tensor.bytes;
    if (bytes > static_cast<Bytes>(kMostBytes)) return std::nullopt;
    list_choices();
    std::size_t ways = 1;
    for (const std::vector<Choice>& choices : choices_)
      if ((ways *= choices.size() + 1) > kMostWays) return std::nullopt;
    best_ = memplan::kMaxBytes;
    choose(0);
    return best_;
  }

 private:
  using Mask = std::bitset<kMostBytes>;
  using Token = std::pair<Index, Bytes>;
  static constexpr Ops kBeginning = Ops{1} << 31;

  // `inside` lies in `whole`, `offset` bytes from where that begins.
  struct Choice {
    memplan::Sharing how;
    Index inside, whole;
    Bytes offset;
  };

  Bytes bytes(Index t) const { return graph_.tensor(t).bytes; }
  bool given(Index t) const {
    return graph_.tensor(t).kind == TensorKind::input || graph_.tensor(t).kind == TensorKind::weight;
  }

  // What an op waits for, and whose values its outputs show.
  void follow(Index k) {
    const Op& op = graph_.op(k);
    Ops waits = 0;
    for (const Index before : op.after) waits |= Ops{1} << before;
    for (const Index t : op.inputs)
      if (maker_[at(t)] >= 0) waits |= Ops{1} << maker_[at(t)];
    for (const Index t : op.outputs) {
      maker_[at(t)] = k;
      for (Bytes i = 0; i < bytes(t); ++i) tokens_[at(t)].push_back({t, i});
    }
    for (const auto* views : {&op.aliases, &op.overwrites})
      for (const View& view : *views) {
        root_[at(view.output)] = root_[at(view.input)];
        offset_[at(view.output)] = offset_[at(view.input)] + view.offset;
      }
    for (const View& view : op.overwrites)  // all that have used these bytes come before
      for (Index t = 0; t < graph_.tensor_count(); ++t) {
        if (root_[at(t)] != root_[at(view.output)] || t == view.output) continue;
        const Bytes begin = std::max(offset_[at(t)], offset_[at(view.output)]);
        const Bytes end = std::min(offset_[at(t)] + bytes(t), offset_[at(view.output)] + bytes(view.output));
        if (begin < end) waits |= users_[at(t)];
      }
    for (const auto* list : {&op.inputs, &op.outputs})
      for (const Index t : *list) users_[at(t)] |= Ops{1} << k;
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (given(t) && tokens_[at(t)].empty())
        for (Bytes i = 0; i < bytes(t); ++i) tokens_[at(t)].push_back({t, i});
    const auto show = [&](Index to, Bytes begin, Index from, Bytes first, Bytes count) {
      for (Bytes i = 0; i < count; ++i) tokens_[at(to)][at(begin + i)] = tokens_[at(from)][at(first + i)];
    };
    for (const View& view : op.aliases) show(view.output, 0, view.input, view.offset, bytes(view.output));
    for (const View& view : op.slices) show(view.output, 0, view.input, view.offset, bytes(view.output));
    for (const View& view : op.concats) show(view.output, view.offset, view.input, 0, bytes(view.input));
    waits_.push_back(waits & ~(Ops{1} << k));
    last_ = tokens_;  // of a weight that is overwritten, the last value is kept
    for (Index later = 0; later <= k; ++later)
      for (const View& view : graph_.op(later).overwrites) replace(view.output);
  }

  void replace(Index written) {
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      if (root_[at(t)] != root_[at(written)] || tokens_[at(t)].empty()) continue;
      for (Bytes i = 0; i < bytes(written); ++i)
        if (const Bytes to = offset_[at(written)] + i - offset_[at(t)]; to >= 0 && to < bytes(t))
          last_[at(t)][at(to)] = tokens_[at(written)][at(i)];
    }
  }

  // Per tensor that may be moved, where to.
  void list_choices() {
    choices_.clear();
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const Op& op = graph_.op(k);
      std::vector<Choice> all;
      if (writes_over(op))
        for (const View& view : op.inplace)
          all.push_back({memplan::Sharing::inplace, view.output, view.input, view.offset});
      if (options_.zero_copy) {
        for (const View& view : op.slices)
          all.push_back({memplan::Sharing::slice, view.output, view.input, view.offset});
        for (const View& view : op.concats)
          all.push_back({memplan::Sharing::concat, view.input, view.output, view.offset});
      }
      std::stable_sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) {
        return std::pair(a.how == memplan::Sharing::concat, a.inside) <
               std::pair(b.how == memplan::Sharing::concat, b.inside);
      });
      for (const Choice& choice : all) {
        const bool with_last = !choices_.empty() && choice.how != memplan::Sharing::concat &&
                               choices_.back().front().how != memplan::Sharing::concat &&
                               choices_.back().front().inside == choice.inside;
        if (!with_last) choices_.emplace_back();
        choices_.back().push_back(choice);
      }
    }
    // What lies in much comes last: what moves there takes all along that has been put into it.
    std::stable_sort(choices_.begin(), choices_.end(), [&](const auto& a, const auto& b) {
      const auto room = [&](const Choice& choice) {
        return choice.how == memplan::Sharing::concat ? bytes(choice.whole) + 1 : Bytes{0};
      };
      return room(a.front()) < room(b.front());
    });
  }

  // Whether what the op may write over inputs is of interest.
  bool writes_over(const Op& op) const {
    const auto& listed = options_.disable_inplace_ops;
    return options_.inplace && std::none_of(listed.begin(), listed.end(), [&](const std::string& type) {
             return op.type == type || op.type.compare(0, type.size() + 1, type + ".") == 0;
           });
  }

  void choose(std::size_t k) {
    if (k == choices_.size()) return try_orders();
    choose(k + 1);
    for (const Choice& choice : choices_[k]) {
      if (!may(choice)) continue;
      const auto root = root_;
      const auto offset = offset_;
      chosen_.push_back(choice);
      const Bytes by = offset_[at(choice.whole)] + choice.offset - offset_[at(choice.inside)];
      const Index moved = root_[at(choice.inside)], host = root_[at(choice.whole)];
      for (std::size_t t = 0; t < root_.size(); ++t)
        if (root_[t] == moved) {
          root_[t] = host;
          offset_[t] += by;
        }
      choose(k + 1);
      chosen_.pop_back();
      root_ = root;
      offset_ = offset;
    }
  }

  bool may(const Choice& choice) const {
    const Index moved = root_[at(choice.inside)], host = root_[at(choice.whole)];
    if (moved == host || given(moved) || bytes(choice.inside) == 0) return false;
    const bool over = choice.how == memplan::Sharing::inplace;
    if (over && choice.offset + bytes(choice.inside) > bytes(choice.whole)) return false;
    if (choice.how != memplan::Sharing::concat && moved != choice.inside) return false;
    if (given(host) && over && !donated(host)) return false;
    if (given(host) && choice.how == memplan::Sharing::slice && any_kept(moved)) return false;
    const Bytes begin = offset_[at(choice.whole)] + choice.offset - offset_[at(choice.inside)];
    return begin >= 0 && begin + bytes(moved) <= bytes(host);
  }

  bool donated(Index t) const {
    return graph_.tensor(t).kind == TensorKind::input &&
           std::find(options_.donate.begin(), options_.donate.end(), graph_.tensor(t).name) != options_.donate.end();
  }

  bool any_kept(Index root) const {
    for (std::size_t t = 0; t < root_.size(); ++t)
      if (root_[t] == root && is_output(static_cast<Index>(t))) return true;
    return false;
  }

  bool is_output(Index t) const {
    return std::find(graph_.outputs().begin(), graph_.outputs().end(), t) != graph_.outputs().end();
  }

  // All orders, with the tensors where they are now: over the sets of ops that may have run.
  void try_orders() {
    lay_out();
    const Ops all = (Ops{1} << graph_.op_count()) - 1;
    std::vector<Bytes> needs(std::size_t{1} << graph_.op_count(), memplan::kMaxBytes);
    needs[0] = 0;
    for (Ops done = 0; done <= all; ++done) {
      if (needs[done] >= best_) continue;
      const Mask alive = alive_after(done);
      needs[done] = std::max(needs[done], static_cast<Bytes>(alive.count()));
      if (done == all) break;
      for (Index k = 0; k < graph_.op_count(); ++k) {
        if ((done >> k & 1) != 0 || (waits_[at(k)] & ~done) != 0 || !runs(k, done)) continue;
        Mask used = alive;
        for (const Index t : graph_.op(k).outputs) used |= placed_[at(t)];
        Bytes need = static_cast<Bytes>(used.count());
        if (options_.place.contains(TensorKind::workspace)) need += graph_.op(k).workspace;
        Bytes& after = needs[done | Ops{1} << k];
        after = std::min(after, std::max(needs[done], need));
      }
    }
    best_ = std::min(best_, needs[all]);
  }

  // The bytes of each tensor in the arena, and which tensors spoil each other's values.
  void lay_out() {
    const std::size_t count = root_.size();
    std::vector<std::size_t> base(count, 0);
    std::size_t end = 0;
    for (std::size_t t = 0; t < count; ++t) {
      base[t] = end;
      if (root_[t] == static_cast<Index>(t)) end += at(bytes(root_[t]));
    }
    placed_.assign(count, {});
    spoils_.assign(count, std::vector<Ops>(count, 0));
    spoils_last_ = spoils_;
    for (std::size_t t = 0; t < count; ++t) {
      const Index root = root_[t];
      TensorKind kind = graph_.tensor(root).kind;
      if (kind == TensorKind::intermediate && any_kept(root)) kind = TensorKind::output;
      if (options_.place.contains(kind))
        for (Bytes i = 0; i < bytes(static_cast<Index>(t)); ++i) placed_[t].set(base[at(root)] + at(offset_[t] + i));
      for (std::size_t u = 0; u < count; ++u) {
        spoils_[t][u] = spoil(t, u, tokens_);
        spoils_last_[t][u] = spoil(t, u, last_);
      }
    }
  }

  // The ops that have made values of u, of those that writing t loses; kBeginning: there was one from the beginning.
  Ops spoil(std::size_t t, std::size_t u, const std::vector<std::vector<Token>>& values) const {
    if (root_[t] != root_[u] || must_share(t, u)) return 0;
    Ops lost = 0;
    const Bytes begin = std::max(offset_[t], offset_[u]);
    const Bytes end = std::min(offset_[t] + bytes(static_cast<Index>(t)), offset_[u] + bytes(static_cast<Index>(u)));
    for (Bytes i = begin; i < end; ++i) {
      const Token& value = values[u][at(i - offset_[u])];
      const Index maker = maker_[at(value.first)];
      if (tokens_[t][at(i - offset_[t])] != value) lost |= maker < 0 ? kBeginning : Ops{1} << maker;
    }
    return lost;
  }

  // Whether one is a view of the other's bytes, or both of a third one's, whatever is chosen.
  bool must_share(std::size_t t, std::size_t u) const { return own_root(t) == own_root(u); }
  Index own_root(std::size_t t) const {
    Index root = static_cast<Index>(t);
    for (Index k = maker_[t]; k >= 0; k = maker_[at(root)]) {
      Index next = root;
      for (const auto* views : {&graph_.op(k).aliases, &graph_.op(k).overwrites})
        for (const View& view : *views)
          if (view.output == root) next = view.input;
      if (next == root) break;
      root = next;
    }
    return root;
  }

  bool made(std::size_t t, Ops done) const { return maker_[t] < 0 || (done >> maker_[t] & 1) != 0; }
  bool needed_after(std::size_t t, Ops done) const { return kept_[t] || (users_[t] & ~done) != 0; }

  Mask alive_after(Ops done) const {
    Mask alive;
    for (std::size_t t = 0; t < root_.size(); ++t)
      if (made(t, done) && needed_after(t, done)) alive |= placed_[t];
    return alive;
  }

  // Whether the op may run after these: no value is lost that it reads, or that is needed after it.
  bool runs(Index k, Ops done) const {
    const Op& op = graph_.op(k);
    const Ops after = done | Ops{1} << k;
    for (const Index o : op.outputs) {
      for (std::size_t t = 0; t < root_.size(); ++t) {
        if (!made(t, done) && maker_[t] != k) continue;
        const bool to_come = (users_[t] & ~after) != 0;
        if (kept_[t] && maker_[t] != k && (spoils_last_[at(o)][t] & (after | kBeginning)) != 0) return false;
        if (spoils_[at(o)][t] == 0) continue;
        if (maker_[t] == k || to_come) return false;
        const bool reads = std::find(op.inputs.begin(), op.inputs.end(), static_cast<Index>(t)) != op.inputs.end();
        if (reads && !written_over(op, o, t)) return false;
      }
    }
    return true;
  }

  // Whether the op says that this output may be written over this input, where they lie now.
  bool written_over(const Op& op, Index o, std::size_t t) const {
    return writes_over(op) && std::any_of(op.inplace.begin(), op.inplace.end(), [&](const View& view) {
             return view.output == o && at(view.input) == t && root_[t] == root_[at(o)] &&
                    offset_[at(o)] == offset_[t] + view.offset;
           });
  }

  const Graph& graph_;
  const memplan::StorageOptions& options_;
  std::vector<Index> root_;                   // per tensor, by what has been chosen so far
  std::vector<Bytes> offset_;                 // per tensor, in its root
  std::vector<Ops> users_;                    // per tensor
  std::vector<Index> maker_;                  // per tensor, an op; -1: none
  std::vector<bool> kept_;                    // per tensor
  std::vector<std::vector<Token>> tokens_;    // per tensor and byte, whose value it shows, ...
  std::vector<std::vector<Token>> last_;      // ... and in the end
  std::vector<Ops> waits_;                    // per op
  std::vector<std::vector<Choice>> choices_;  // of each, one at most is taken
  std::vector<Choice> chosen_;
  std::vector<Mask> placed_;  // per tensor, its bytes in the arena
  std::vector<std::vector<Ops>> spoils_,
      spoils_last_;  // per pair, what writing one loses of the other's values; last ones
  Bytes best_ = 0;
};

}  // namespace plain
