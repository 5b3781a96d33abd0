#include "memplan/storage.hpp"

#include <algorithm>

#include "memplan/errors.hpp"
#include "problem/max_tree.hpp"
#include "storage/groups.hpp"

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
      throw GraphError("donate must name graph inputs, got '" + name + "'" +
                       (t ? ", which is of kind " + std::string(to_string(graph.tensor(*t).kind)) : ""));
    donated[at(*t)] = true;
  }
  return donated;
}

class Sharer {
 public:
  Sharer(const Graph& graph, const HappensBefore& order, const StorageOptions& options)
      : graph_(graph),
        order_(order),
        options_(options),
        donated_(donated_inputs(graph, options.donate)),
        groups_(graph.tensors().size()),
        storages_(graph.tensors().size()),
        uses_(graph.tensors().size()),
        load_(std::vector<Bytes>(graph.ops().size(), 0)) {
    collect_uses();
    for (Index t = 0; t < graph_.tensor_count(); ++t) storages_[at(t)] = storage_of_one(t);
    join_what_must_be();
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (is_root(t) && options_.place.contains(kind_of(group_of(t)))) unshared_ = saturated_add(unshared_, bytes(t));
  }

  void share() {
    if (!(options_.inplace || options_.zero_copy) || !sum_fits()) return;
    count_load();
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const Op& op = graph_.op(k);
      if (options_.inplace && !op.inplace.empty() && !disabled(op)) share_in_place(k, op.inplace);
      if (!options_.zero_copy) continue;
      for (const View& view : op.slices) share_slice(k, view);
      if (!op.concats.empty()) share_concats(k, op.concats);
    }
  }

  Storages result() {
    Storages result;
    result.storage_of.assign(graph_.tensors().size(), kNone);
    result.offset_of.assign(graph_.tensors().size(), 0);
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      const Group& group = storages_[at(groups_.find(t))];
      if (group.root != t) continue;
      result.storage_of[at(t)] = static_cast<Index>(result.storages.size());
      result.storages.push_back({t, graph_.tensor(t).bytes, kind_of(group)});
    }
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      const Index root = storages_[at(groups_.find(t))].root;
      result.storage_of[at(t)] = result.storage_of[at(root)];
      result.offset_of[at(t)] = groups_.position(t) - groups_.position(root);
    }
    result.shared = std::move(shared_);
    result.unshared = unshared_;
    return result;
  }

 private:
  // The ops that use a tensor. An endless one is kept for the caller; a given one was there before the first op.
  struct Uses {
    Step first = 0;
    Step last = -1;
    bool endless = false;
    std::vector<Index> ops = {};  // where order is not total
  };

  // The storage that a group of tensors forms; kept at the group's representative.
  struct Group {
    Index root = kNone;
    Step first = 0;
    Step last = 0;  // the step after the last use
    bool is_output = false;
    std::vector<Index> members = {};      // those that may be used again
    std::vector<Index> overwriting = {};  // those that are written over what others held
  };

  void collect_uses() {
    for (Index t = 0; t < graph_.tensor_count(); ++t) uses_[at(t)].first = graph_.op_count();
    const auto use = [&](Index t, Index k) {
      Uses& uses = uses_[at(t)];
      uses.first = std::min<Step>(uses.first, k);
      uses.last = std::max<Step>(uses.last, k);
      if (!order_.total()) uses.ops.push_back(k);
    };
    for (Index k = 0; k < graph_.op_count(); ++k) {
      for (Index t : graph_.op(k).inputs) use(t, k);
      for (Index t : graph_.op(k).outputs) use(t, k);
    }
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      const TensorKind kind = graph_.tensor(t).kind;
      if (is_given(kind)) uses_[at(t)].first = 0;
      if (is_given(kind)) uses_[at(t)].last = std::max<Step>(uses_[at(t)].last, 0);  // it is there at least
      if (kind == TensorKind::weight) uses_[at(t)].endless = true;
    }
    for (Index t : graph_.outputs()) uses_[at(t)].endless = true;
  }

  Group storage_of_one(Index t) const {
    const Uses& uses = uses_[at(t)];
    const Step end = uses.endless ? graph_.op_count() : uses.last + 1;
    const bool is_output = uses.endless && graph_.tensor(t).kind != TensorKind::weight;
    return {t, uses.first, end, is_output, {t}};
  }

  void join_what_must_be() {
    for (const Op& op : graph_.ops()) {
      for (const View& view : op.aliases) join(view.input, view.output, view.offset);
      for (const View& view : op.overwrites) join(view.input, view.output, view.offset);
      for (const View& view : op.overwrites) group_of(view.output).overwriting.push_back(view.output);
    }
  }

  static void move_into(std::vector<Index>& all, std::vector<Index>& more) {
    if (all.size() < more.size()) std::swap(all, more);
    all.insert(all.end(), more.begin(), more.end());
    more.clear();
  }

  // Joins the storages of two tensors; that of `inside` lies within that of `whole`.
  void join(Index whole, Index inside, Bytes offset) {
    Group& outer = group_of(whole);
    Group& inner = group_of(inside);
    if (&outer == &inner) return;
    outer.first = std::min(outer.first, inner.first);
    outer.last = std::max(outer.last, inner.last);
    outer.is_output = outer.is_output || inner.is_output;
    move_into(outer.members, inner.members);
    move_into(outer.overwriting, inner.overwriting);
    Group joined = std::move(outer);
    groups_.unite(whole, inside, offset);
    group_of(whole) = std::move(joined);
  }

  Group& group_of(Index t) { return storages_[at(groups_.find(t))]; }
  Bytes bytes(Index t) const { return graph_.tensor(t).bytes; }
  Bytes offset_in_storage(Index t) { return groups_.position(t) - groups_.position(group_of(t).root); }

  // A free tensor's storage is its own, and all that lives in it came after it.
  bool is_root(Index t) { return group_of(t).root == t; }

  TensorKind kind_of(const Group& group) const {
    const TensorKind kind = graph_.tensor(group.root).kind;
    return group.is_output && kind == TensorKind::intermediate ? TensorKind::output : kind;
  }

  static bool is_given(TensorKind kind) { return kind == TensorKind::input || kind == TensorKind::weight; }

  // Whether all bytes together fit int64, so that loads do.
  bool sum_fits() const {
    std::optional<Bytes> sum = 0;
    for (const Tensor& tensor : graph_.tensors()) sum = sum ? checked_add(*sum, tensor.bytes) : sum;
    for (const Op& op : graph_.ops()) sum = sum ? checked_add(*sum, op.workspace) : sum;
    return sum.has_value();
  }

  void count_load() {
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (is_root(t)) count(group_of(t), 1);
    if (options_.place.contains(TensorKind::workspace))
      for (std::size_t k = 0; k < graph_.ops().size(); ++k) load_.add(k, k + 1, graph_.ops()[k].workspace);
  }

  void count(const Group& group, Bytes sign) {
    if (options_.place.contains(kind_of(group))) load_.add(at(group.first), at(group.last), sign * bytes(group.root));
  }

  // Whether the load does not rise when these storages become one with the first one's root. If so, they count as one
  // from now on.
  bool does_no_harm(const std::vector<const Group*>& parts) {
    const Bytes before = load_.max(0, load_.size());
    Group joined{parts[0]->root, parts[0]->first, parts[0]->last, parts[0]->is_output, {}};
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

  void note(Sharing how, Index k, const View& view) { shared_.push_back({how, k, view}); }

  bool aligned(Bytes offset) const { return offset % options_.alignment == 0; }

  // The members of a storage that may be used at or after op k; on one stream those that are not are forgotten.
  const std::vector<Index>& members(Index t, Index k) {
    std::vector<Index>& members = group_of(t).members;
    if (order_.total()) std::erase_if(members, [&](Index m) { return !uses_[at(m)].endless && uses_[at(m)].last < k; });
    return members;
  }

  // Whether every use of t ends before op k begins.
  bool done_before(Index t, Index k) const {
    const Uses& uses = uses_[at(t)];
    if (uses.endless) return false;
    if (order_.total()) return uses.last < k;
    return std::all_of(uses.ops.begin(), uses.ops.end(), [&](Index op) { return order_.before(op, k); });
  }

  // The same, save that op k itself may read it.
  bool done_after_reading(Index t, Index k) const {
    const Uses& uses = uses_[at(t)];
    const auto& outputs = graph_.op(k).outputs;
    if (uses.endless || std::find(outputs.begin(), outputs.end(), t) != outputs.end()) return false;
    if (order_.total()) return uses.last <= k;
    return std::all_of(uses.ops.begin(), uses.ops.end(), [&](Index op) { return op == k || order_.before(op, k); });
  }

  bool share_bytes(Index t, Bytes begin, Bytes end) {
    const Bytes from = offset_in_storage(t);
    return std::max(from, begin) < std::min(from + bytes(t), end);
  }

  // In place

  bool disabled(const Op& op) const {
    return std::any_of(options_.disable_inplace_ops.begin(), options_.disable_inplace_ops.end(),
                       [&](const std::string& listed) { return matches(op.type, listed); });
  }

  // The outputs of the op, the largest first, each into the input whose storage it fits best.
  void share_in_place(Index k, std::vector<View> views) {
    std::erase_if(views, [&](const View& view) { return !is_root(view.output) || bytes(view.output) == 0; });
    const auto waste = [&](const View& view) { return bytes(group_of(view.input).root) - bytes(view.output); };
    std::stable_sort(views.begin(), views.end(), [&](const View& a, const View& b) {
      if (bytes(a.output) != bytes(b.output)) return bytes(a.output) > bytes(b.output);
      if (a.output != b.output) return a.output < b.output;
      return waste(a) < waste(b);
    });
    for (const View& view : views) {
      if (!is_root(view.output) || !may_take(k, view)) continue;
      if (!does_no_harm({&group_of(view.input), &group_of(view.output)})) continue;
      join(view.input, view.output, view.offset);
      group_of(view.output).overwriting.push_back(view.output);
      note(Sharing::inplace, k, view);
    }
  }

  // Whether output may take these bytes of input.
  bool may_take(Index k, const View& view) {
    if (groups_.find(view.input) == groups_.find(view.output)) return false;
    if (view.offset < 0 || view.offset > bytes(view.input) || bytes(view.output) > bytes(view.input) - view.offset)
      return false;
    const Index root = group_of(view.input).root;
    if (graph_.tensor(root).kind == TensorKind::input && !donated_[at(root)]) return false;  // a weight is endless
    const Bytes input = offset_in_storage(view.input);
    const Bytes begin = input + view.offset;
    if (!aligned(begin)) return false;
    const std::vector<Index>& used = members(view.input, k);
    return std::all_of(used.begin(), used.end(), [&](Index m) {
      if (!share_bytes(m, begin, begin + bytes(view.output)) || done_before(m, k)) return true;
      const bool same_view = offset_in_storage(m) == input && bytes(m) == bytes(view.input);
      return same_view && done_after_reading(m, k);
    });
  }

  // Zero copy

  // Whether some member of the storage is written over bytes [begin, end) of it by op k or one after it.
  bool overwritten(Index t, Index k, Bytes begin, Bytes end) {
    const std::vector<Index>& overwriting = group_of(t).overwriting;
    return std::any_of(overwriting.begin(), overwriting.end(),
                       [&](Index m) { return uses_[at(m)].first >= k && share_bytes(m, begin, end); });
  }

  bool overwritten(Index t, Index k) { return overwritten(t, k, 0, bytes(group_of(t).root)); }

  void share_slice(Index k, const View& view) {
    if (!is_root(view.output) || bytes(view.output) == 0 || overwritten(view.output, k)) return;
    if (groups_.find(view.input) == groups_.find(view.output)) return;
    const Group& whole = group_of(view.input);
    if (is_given(graph_.tensor(whole.root).kind) && group_of(view.output).is_output) return;
    const Bytes begin = offset_in_storage(view.input) + view.offset;
    if (!aligned(begin) || overwritten(view.input, k, begin, begin + bytes(view.output))) return;
    if (!does_no_harm({&group_of(view.input), &group_of(view.output)})) return;
    join(view.input, view.output, view.offset);
    note(Sharing::slice, k, view);
  }

  // All parts of each whole if that does no harm, else one by one, those born last first.
  void share_concats(Index k, std::vector<View> parts) {
    std::stable_sort(parts.begin(), parts.end(), [&](const View& a, const View& b) {
      if (a.output != b.output) return a.output < b.output;
      return uses_[at(a.input)].first > uses_[at(b.input)].first;
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
    if (!is_root(whole) || overwritten(whole, k)) return;
    const std::vector<Move> moves = moves_into(k, whole, parts);
    if (moves.empty()) return;
    std::vector<const Group*> all = {&group_of(whole)};
    for (const Move& move : moves) all.push_back(&group_of(move.parts.front().input));
    const bool together = does_no_harm(all);
    for (const Move& move : moves) {
      const View& first = move.parts.front();
      if (!together && !does_no_harm({&group_of(whole), &group_of(first.input)})) continue;
      join(whole, first.input, first.offset);
      for (const View& part : move.parts) note(Sharing::concat, k, part);
    }
  }

  // The storages of parts that may move into the whole, apart from each other.
  std::vector<Move> moves_into(Index k, Index whole, const std::vector<View>& parts) {
    std::vector<Move> moves;
    for (const View& part : parts) {
      if (bytes(part.input) == 0 || groups_.find(part.input) == groups_.find(whole)) continue;
      const Bytes begin = part.offset - offset_in_storage(part.input);
      const auto known = std::find_if(moves.begin(), moves.end(), [&](const Move& move) {
        return groups_.find(move.parts.front().input) == groups_.find(part.input);
      });
      if (known == moves.end()) {
        moves.push_back({begin, begin + bytes(group_of(part.input).root), {part}});
      } else if (known->begin == begin) {
        known->parts.push_back(part);
      }
    }
    std::vector<Move> possible;
    for (Move& move : moves) {
      const bool apart = std::none_of(possible.begin(), possible.end(), [&](const Move& other) {
        return std::max(move.begin, other.begin) < std::min(move.end, other.end);
      });
      if (apart && may_move(k, whole, move)) possible.push_back(std::move(move));
    }
    return possible;
  }

  // Whether all of a storage that is used at or after op k is among the parts that it brings: the rest of its bytes in
  // the whole is for others to write.
  bool may_move(Index k, Index whole, Move& move) {
    const Index any = move.parts.front().input;
    if (is_given(graph_.tensor(group_of(any).root).kind) || overwritten(any, k)) return false;
    if (move.begin < 0 || move.end > bytes(whole) || !aligned(move.begin)) return false;
    std::sort(move.parts.begin(), move.parts.end(), [](const View& a, const View& b) { return a.offset < b.offset; });
    const std::vector<Index>& used = members(any, k);
    return std::all_of(used.begin(), used.end(), [&](Index m) {
      const Bytes begin = move.begin + offset_in_storage(m);
      Bytes covered = begin;
      for (const View& part : move.parts)
        if (part.offset <= covered) covered = std::max(covered, part.offset + bytes(part.input));
      return covered >= begin + bytes(m) || done_before(m, k);
    });
  }

  const Graph& graph_;
  const HappensBefore& order_;
  const StorageOptions& options_;
  std::vector<bool> donated_;  // per tensor
  Groups groups_;
  std::vector<Group> storages_;  // per representative
  std::vector<Uses> uses_;       // per tensor
  MaxTree load_;                 // with every storage whole from its first use to its last
  std::vector<Shared> shared_;
  Bytes unshared_ = 0;
};

}  // namespace

std::string_view to_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::inplace: return "inplace";
    case Sharing::slice: return "slice";
    case Sharing::concat: return "concat";
  }
  return "unknown";
}

Storages storages_of(const Graph& graph, const HappensBefore& order, const StorageOptions& options) {
  if (options.alignment < 1) throw ProblemError("alignment must be >= 1, got " + std::to_string(options.alignment));
  Sharer sharer(graph, order, options);
  sharer.share();
  return sharer.result();
}

}  // namespace memplan
