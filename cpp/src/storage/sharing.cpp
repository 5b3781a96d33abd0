#include "storage/sharing.hpp"

#include <algorithm>
#include <tuple>

#include "base/max_tree.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

// "Add" stands for itself, and "aten.add" for every overload of it.
bool matches(const std::string& type, const std::string& listed) {
  return type.compare(0, listed.size(), listed) == 0 && (type.size() == listed.size() || type[listed.size()] == '.');
}

std::vector<bool> donated_inputs(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<bool> donated(graph.tensors().size(), false);
  for (const std::string& name : names) {
    const auto t = graph.find(name);
    if (!t || graph.tensor(*t).kind != TensorKind::input)
      throw GraphError("donate must name graph inputs, got " + quoted(name) +
                       (t ? ", which is of kind " + std::string(to_string(graph.tensor(*t).kind)) : ""));
    donated[at(*t)] = true;
  }
  return donated;
}

auto key(Sharing how, Index op, const View& view) { return std::tuple(op, how, view.output, view.input, view.offset); }

class Sharer {
 public:
  Sharer(FormingStorages& storages, const Graph& graph, const HappensBefore& order, const StorageOptions& options,
         const Wanted& wanted = {})
      : storages_(storages),
        graph_(graph),
        order_(order),
        options_(options),
        donated_(donated_inputs(graph, options.donate)),
        load_(std::vector<Bytes>(wanted ? 0 : graph.ops().size(), 0)),
        any_load_(wanted.has_value()) {
    if (!wanted) return;
    for (const Shared& shared : *wanted) wanted_.push_back(key(shared.how, shared.op, shared.view));
    std::sort(wanted_.begin(), wanted_.end());
  }

  std::vector<Shared> share() {
    if (!(options_.inplace || options_.zero_copy) || !total_bytes(graph_)) return {};
    if (!any_load_) count_load();
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const Op& op = graph_.op(k);
      if (options_.inplace && !op.inplace.empty() && !is_disabled(op, options_)) share_in_place(k, op.inplace);
      if (!options_.zero_copy) continue;
      for (const View& view : op.slices)
        if (is_wanted(Sharing::slice, k, view)) share_slice(k, view);
      if (!op.concats.empty()) share_concats(k, op.concats);
    }
    return std::move(shared_);
  }

  // Each sharing that is safe while nothing else shares bytes by choice. More sharing only rules out more, save where
  // it joins the parts of a concatenation: these are taken for possible wherever the whole has room for them.
  std::vector<Shared> possible() {
    if (!total_bytes(graph_)) return {};
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const Op& op = graph_.op(k);
      if (options_.inplace && !is_disabled(op, options_))
        for (const View& view : op.inplace)
          if (storages_.is_root(view.output) && bytes(view.output) > 0 && may_take(k, view))
            note(Sharing::inplace, k, view);
      if (!options_.zero_copy) continue;
      for (const View& view : op.slices)
        if (may_be_slice(k, view)) note(Sharing::slice, k, view);
      for (const View& view : op.concats)
        if (may_be_part(k, view)) note(Sharing::concat, k, view);
    }
    return std::move(shared_);
  }

 private:
  const Uses& uses_of(Index t) const { return storages_.uses(t); }
  Group& group_of(Index t) { return storages_.group_of(t); }
  Bytes bytes(Index t) const { return graph_.tensor(t).bytes; }

  void count_load() {
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (storages_.is_root(t)) count(group_of(t), 1);
    if (options_.place.contains(TensorKind::workspace))
      for (std::size_t k = 0; k < graph_.ops().size(); ++k) load_.add(k, k + 1, graph_.ops()[k].workspace);
  }

  void count(const Group& group, Bytes sign) {
    if (storages_.is_placed(group, options_.place))
      load_.add(at(group.first), at(group.last), sign * bytes(group.root));
  }

  // Whether the load does not rise when these storages become one with the first one's root. If so, they count as one
  // from now on.
  bool does_no_harm(const std::vector<const Group*>& parts) {
    if (any_load_) return true;
    const Bytes before = load_.max(0, load_.size());
    Group joined{parts[0]->root, parts[0]->first, parts[0]->last, parts[0]->is_output, parts[0]->excluded, {}};
    for (const Group* part : parts) {
      joined.first = std::min(joined.first, part->first);
      joined.last = std::max(joined.last, part->last);
      joined.is_output = joined.is_output || part->is_output;
      count(*part, -1);
    }
    count(joined, 1);
    if (load_.max(0, load_.size()) <= before) return true;
    count(joined, -1);
    for (const Group* part : parts) count(*part, 1);
    return false;
  }

  bool is_wanted(Sharing how, Index k, const View& view) const {
    return !any_load_ || std::binary_search(wanted_.begin(), wanted_.end(), key(how, k, view));
  }

  void note(Sharing how, Index k, const View& view) { shared_.push_back({how, k, view}); }

  bool aligned(Bytes offset) const { return offset % options_.alignment == 0; }

  // What is not in the arena, because the layout says so, shares bytes with nothing by choice.
  bool is_excluded(const View& view) { return group_of(view.input).excluded || group_of(view.output).excluded; }

  // The members of a storage that may be used at or after op k; on one stream those that are not are forgotten, unless
  // all that is wanted is to be shared.
  const std::vector<Index>& members(Index t, Index k) {
    std::vector<Index>& members = group_of(t).members;
    if (order_.total() && !any_load_)
      std::erase_if(members, [&](Index m) { return !uses_of(m).endless && uses_of(m).last < k; });
    return members;
  }

  // Whether every use of t ends before op k begins.
  bool done_before(Index t, Index k) const {
    const Uses& uses = uses_of(t);
    if (uses.endless) return false;
    if (order_.total()) return uses.last < k;
    return std::all_of(uses.ops.begin(), uses.ops.end(), [&](Index op) { return order_.before(op, k); });
  }

  // The same, save that op k itself may read it.
  bool done_after_reading(Index t, Index k) const {
    const Uses& uses = uses_of(t);
    if (uses.endless) return false;
    if (order_.total()) return uses.last <= k;
    return std::all_of(uses.ops.begin(), uses.ops.end(), [&](Index op) { return op == k || order_.before(op, k); });
  }

  bool share_bytes(Index t, Bytes begin, Bytes end) {
    const Bytes from = storages_.offset_of(t);
    return std::max(from, begin) < std::min(from + bytes(t), end);
  }

  // In place

  // The outputs of the op, the largest first, each into the input whose storage it fits best.
  void share_in_place(Index k, std::vector<View> views) {
    std::erase_if(views, [&](const View& view) {
      return !is_wanted(Sharing::inplace, k, view) || !storages_.is_root(view.output) || bytes(view.output) == 0;
    });
    const auto waste = [&](const View& view) { return bytes(group_of(view.input).root) - bytes(view.output); };
    std::stable_sort(views.begin(), views.end(), [&](const View& a, const View& b) {
      if (bytes(a.output) != bytes(b.output)) return bytes(a.output) > bytes(b.output);
      if (a.output != b.output) return a.output < b.output;
      return waste(a) < waste(b);
    });
    for (const View& view : views) {
      if (!storages_.is_root(view.output) || !may_take(k, view)) continue;
      if (!does_no_harm({&group_of(view.input), &group_of(view.output)})) continue;
      storages_.join_over(view.input, view.output, view.offset);
      note(Sharing::inplace, k, view);
    }
  }

  // Whether output may take these bytes of input.
  bool may_take(Index k, const View& view) {
    if (storages_.together(view.input, view.output) || is_excluded(view)) return false;
    if (view.offset < 0 || view.offset > bytes(view.input) || bytes(view.output) > bytes(view.input) - view.offset)
      return false;
    const Index root = group_of(view.input).root;
    if (graph_.tensor(root).kind == TensorKind::input && !donated_[at(root)]) return false;  // a weight is endless
    const Bytes begin = storages_.offset_of(view.input) + view.offset;
    if (!aligned(begin)) return false;
    const std::vector<Index>& used = members(view.input, k);
    return std::all_of(used.begin(), used.end(), [&](Index m) {
      if (!share_bytes(m, begin, begin + bytes(view.output)) || done_before(m, k)) return true;
      return may_be_over(k, view.output, m, begin) && done_after_reading(m, k);
    });
  }

  // Whether op k says that the output may be written over t while it reads t, if the output is where byte `begin` of
  // t's storage is. It says so by name: as another name, it may read the same bytes in another order.
  bool may_be_over(Index k, Index output, Index t, Bytes begin) {
    const auto& views = graph_.op(k).inplace;
    return std::any_of(views.begin(), views.end(), [&](const View& view) {
      return view.output == output && view.input == t && storages_.offset_of(t) + view.offset == begin;
    });
  }

  // Zero copy

  // Whether something that is written over the bytes of one storage, by op k or one after it, destroys what another has
  // there when it lies in the first, `offset` bytes from where that begins.
  bool destroys(Index writer, Index other, Bytes offset, Index k) {
    const std::vector<Index>& overwriting = group_of(writer).overwriting;
    return std::any_of(overwriting.begin(), overwriting.end(), [&](Index m) {
      if (uses_of(m).first < k) return false;
      const Bytes begin = storages_.offset_of(m) - offset, end = begin + bytes(m);
      const std::vector<Index>& used = members(other, k);
      return std::any_of(used.begin(), used.end(), [&](Index t) {
        return share_bytes(t, begin, end) && !done_before(t, static_cast<Index>(uses_of(m).first));
      });
    });
  }

  // Whether both keep what they hold, from op k on, when the storage of `inside` lies in that of `whole`.
  bool keep_values(Index k, Index whole, Index inside, Bytes offset) {
    return !destroys(whole, inside, offset, k) && !destroys(inside, whole, -offset, k);
  }

  // Whether the caller lends its bytes only to be read, and something is written over those that they share.
  bool writes_to_given(Index k, Index whole, Index inside) {
    const Index root = group_of(whole).root;
    const TensorKind kind = graph_.tensor(root).kind;
    if (!is_given(kind) || donated_[at(root)] || storages_.is_placed(group_of(whole), options_.place)) return false;
    const std::vector<Index>& overwriting = group_of(inside).overwriting;
    return std::any_of(overwriting.begin(), overwriting.end(), [&](Index m) { return uses_of(m).first >= k; });
  }

  bool may_be_slice(Index k, const View& view) {
    if (!storages_.is_root(view.output) || bytes(view.output) == 0) return false;
    if (storages_.together(view.input, view.output) || is_excluded(view)) return false;
    const Group& whole = group_of(view.input);
    if (is_given(graph_.tensor(whole.root).kind) && group_of(view.output).is_output) return false;
    const Bytes begin = storages_.offset_of(view.input) + view.offset;
    return aligned(begin) && !writes_to_given(k, view.input, view.output) &&
           keep_values(k, view.input, view.output, begin);
  }

  void share_slice(Index k, const View& view) {
    if (!may_be_slice(k, view)) return;
    if (!does_no_harm({&group_of(view.input), &group_of(view.output)})) return;
    storages_.join(view.input, view.output, view.offset);
    note(Sharing::slice, k, view);
  }

  // All parts of each whole if that does no harm, else one by one, those born last first.
  void share_concats(Index k, std::vector<View> parts) {
    std::erase_if(parts, [&](const View& part) { return !is_wanted(Sharing::concat, k, part); });
    std::stable_sort(parts.begin(), parts.end(), [&](const View& a, const View& b) {
      if (a.output != b.output) return a.output < b.output;
      return uses_of(a.input).first > uses_of(b.input).first;
    });
    for (auto first = parts.begin(); first != parts.end();) {
      const auto last = std::find_if(first, parts.end(), [&](const View& v) { return v.output != first->output; });
      share_concat(k, {first, last});
      first = last;
    }
  }

  // A storage that moves into a concatenation, to bytes [begin, end) of it, for the parts that it brings there.
  struct Move {
    Bytes begin;
    Bytes end;
    std::vector<View> parts;
  };

  void share_concat(Index k, const std::vector<View>& parts) {
    const Index whole = parts.front().output;
    if (!storages_.is_root(whole)) return;
    const std::vector<Move> moves = moves_into(k, whole, parts);
    if (moves.empty()) return;
    std::vector<const Group*> all = {&group_of(whole)};
    for (const Move& move : moves) all.push_back(&group_of(move.parts.front().input));
    const bool together = does_no_harm(all);
    for (const Move& move : moves) {
      const View& first = move.parts.front();
      if (!together && !does_no_harm({&group_of(whole), &group_of(first.input)})) continue;
      storages_.join(whole, first.input, first.offset);
      for (const View& part : move.parts) note(Sharing::concat, k, part);
    }
  }

  // The storages of parts that may move into the whole, apart from each other.
  std::vector<Move> moves_into(Index k, Index whole, const std::vector<View>& parts) {
    std::vector<Move> moves;
    for (const View& part : parts) {
      if (bytes(part.input) == 0 || storages_.together(part.input, whole) || is_excluded(part)) continue;
      const Bytes begin = part.offset - storages_.offset_of(part.input);
      const auto known = std::find_if(moves.begin(), moves.end(), [&](const Move& move) {
        return storages_.together(move.parts.front().input, part.input);
      });
      if (known == moves.end()) {
        moves.push_back({begin, begin + bytes(group_of(part.input).root), {part}});
      } else if (known->begin == begin) {
        known->parts.push_back(part);
      }
    }
    std::vector<Move> possible;
    for (Move& move : moves) {
      const bool apart =
          std::none_of(possible.begin(), possible.end(), [&](const Move& other) { return collide(move, other); });
      if (apart && may_move(k, whole, move)) possible.push_back(std::move(move));
    }
    return possible;
  }

  // Whether two storages use a byte of the whole at once. Where the members that are dead have been forgotten, they do
  // wherever they share bytes.
  bool collide(const Move& one, const Move& other) {
    if (std::max(one.begin, other.begin) >= std::min(one.end, other.end)) return false;
    if (!any_load_) return true;
    const auto dead_before = [&](Index a, Index b) {
      return !uses_of(a).endless && uses_of(a).last < uses_of(b).first;
    };
    const auto lives_with = [&](Index a, Index b) { return !dead_before(a, b) && !dead_before(b, a); };
    const std::vector<Index>& members = group_of(one.parts.front().input).members;
    const std::vector<Index>& others = group_of(other.parts.front().input).members;
    return std::any_of(members.begin(), members.end(), [&](Index a) {
      const Bytes begin = one.begin + storages_.offset_of(a) - other.begin;
      return std::any_of(others.begin(), others.end(),
                         [&](Index b) { return share_bytes(b, begin, begin + bytes(a)) && lives_with(a, b); });
    });
  }

  // Whether a part's storage may move into the whole, if all of it that is still used is among the parts.
  bool may_be_part(Index k, const View& part) {
    if (!storages_.is_root(part.output)) return false;
    if (bytes(part.input) == 0 || storages_.together(part.input, part.output) || is_excluded(part)) return false;
    const Group& moved = group_of(part.input);
    const Bytes begin = part.offset - storages_.offset_of(part.input);
    if (is_given(graph_.tensor(moved.root).kind)) return false;
    if (begin < 0 || begin + bytes(moved.root) > bytes(part.output) || !aligned(begin)) return false;
    return keep_values(k, part.output, part.input, begin);
  }

  // Whether all of a storage that is used at or after op k is among the parts that it brings: the rest of its bytes in
  // the whole is for others to write.
  bool may_move(Index k, Index whole, Move& move) {
    const Index any = move.parts.front().input;
    if (is_given(graph_.tensor(group_of(any).root).kind)) return false;
    if (move.begin < 0 || move.end > bytes(whole) || !aligned(move.begin)) return false;
    if (!keep_values(k, whole, any, move.begin)) return false;
    std::sort(move.parts.begin(), move.parts.end(), [](const View& a, const View& b) { return a.offset < b.offset; });
    const std::vector<Index>& used = members(any, k);
    return std::all_of(used.begin(), used.end(), [&](Index m) {
      const Bytes begin = move.begin + storages_.offset_of(m);
      Bytes covered = begin;
      for (const View& part : move.parts)
        if (part.offset <= covered) covered = std::max(covered, part.offset + bytes(part.input));
      return covered >= begin + bytes(m) || done_before(m, k);
    });
  }

  FormingStorages& storages_;
  const Graph& graph_;
  const HappensBefore& order_;
  const StorageOptions& options_;
  std::vector<bool> donated_;  // per tensor
  MaxTree load_;               // with every storage whole from its first use to its last
  bool any_load_;              // what is wanted is shared whatever it does to the load
  std::vector<std::tuple<Index, Sharing, Index, Index, Bytes>> wanted_ = {};  // ascending
  std::vector<Shared> shared_;
};

}  // namespace

std::vector<Shared> share(FormingStorages& storages, const Graph& graph, const HappensBefore& order,
                          const StorageOptions& options, const Wanted& wanted) {
  return Sharer(storages, graph, order, options, wanted).share();
}

bool is_disabled(const Op& op, const StorageOptions& options) {
  return std::any_of(options.disable_inplace_ops.begin(), options.disable_inplace_ops.end(),
                     [&](const std::string& listed) { return matches(op.type, listed); });
}

std::vector<Shared> possible_sharing(const Graph& graph, const HappensBefore& order, const StorageOptions& options) {
  FormingStorages storages(graph, order);
  return Sharer(storages, graph, order, options).possible();
}

}  // namespace memplan
