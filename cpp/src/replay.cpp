#include "memplan/replay.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// What was written last into a range of bytes: the value of a tensor, or the workspace of an op.
struct Mark {
  Index tensor = kNone;
  Index op = kNone;  // whose workspace, where tensor is kNone

  bool operator==(const Mark&) const = default;
};

// The arena, as ranges of bytes with the mark of their last writer; bytes never written have no range.
class Shadow {
 public:
  void write(Bytes begin, Bytes end, Mark mark) {
    split_at(begin);
    split_at(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, mark};
  }

  struct Mismatch {
    Bytes begin;
    Bytes end;
    std::optional<Mark> found;  // nothing where the bytes were never written
  };

  // The first bytes in [begin, end) whose mark is not allowed.
  template <class Allowed>
  std::optional<Mismatch> mismatch(Bytes begin, Bytes end, Allowed&& allowed) const {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second.end > begin) --it;
    for (; begin < end; ++it) {
      if (it == ranges_.end() || it->first >= end) return Mismatch{begin, end, std::nullopt};
      if (it->first > begin) return Mismatch{begin, it->first, std::nullopt};
      if (!allowed(it->second.mark)) return Mismatch{begin, std::min(end, it->second.end), it->second.mark};
      begin = it->second.end;
    }
    return std::nullopt;
  }

 private:
  struct Range {
    Bytes end;
    Mark mark;
  };

  void split_at(Bytes address) {
    auto it = ranges_.lower_bound(address);
    if (it == ranges_.begin()) return;
    Range& before = std::prev(it)->second;
    if (before.end <= address) return;
    ranges_.emplace_hint(it, address, Range{before.end, before.mark});
    before.end = address;
  }

  std::map<Bytes, Range> ranges_;  // by first byte; disjoint
};

class Replay {
 public:
  Replay(const Graph& graph, std::span<const Bytes> offset, std::span<const Bytes> workspace, std::size_t limit)
      : graph_(graph),
        offset_(offset),
        workspace_(workspace),
        limit_(limit),
        value_(graph.tensors().size()),
        replaces_(graph.tensors().size(), kNone) {
    std::iota(value_.begin(), value_.end(), Index{0});
  }

  std::vector<ReplayFault> run() {
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      const TensorKind kind = graph_.tensor(t).kind;
      if (kind == TensorKind::input || kind == TensorKind::weight) write(t);
    }
    for (Index k = 0; k < graph_.op_count() && faults_.size() < limit_; ++k) execute(k);
    finish();
    if (faults_.size() > limit_) faults_.resize(limit_);
    return std::move(faults_);
  }

 private:
  std::string op_label(Index k) const { return "op '" + graph_.op(k).name + "' (step " + std::to_string(k) + ")"; }
  std::string tensor_label(Index t) const { return "tensor '" + graph_.tensor(t).name + "'"; }

  void fault(Index op, Index tensor, std::string message) {
    for (auto it = faults_.rbegin(); it != faults_.rend() && it->op == op; ++it)
      if (it->tensor == tensor) return;
    faults_.push_back({op, tensor, std::move(message)});
  }

  bool has_bytes(Index t) const { return offset_[at(t)] != kNotPlaced && graph_.tensor(t).bytes > 0; }

  void write(Index t) {
    if (has_bytes(t))
      shadow_.write(offset_[at(t)], saturated_add(offset_[at(t)], graph_.tensor(t).bytes), {value_[at(t)], kNone});
  }

  std::string describe(const Shadow::Mismatch& mismatch) const {
    const std::string bytes = "[" + std::to_string(mismatch.begin) + ", " + std::to_string(mismatch.end) + ")";
    if (!mismatch.found) return "bytes " + bytes + " were never written";
    if (mismatch.found->tensor != kNone) return "bytes " + bytes + " hold " + tensor_label(mismatch.found->tensor);
    return "bytes " + bytes + " hold the workspace of " + op_label(mismatch.found->op);
  }

  // The bytes of t must hold its value, or marks that `allowed` lets pass.
  template <class Allowed>
  void check(Index step, Index t, const std::string& who, Allowed&& allowed) {
    if (!has_bytes(t)) return;
    const Bytes begin = offset_[at(t)];
    const Mark own{value_[at(t)], kNone};
    const auto wrong = shadow_.mismatch(begin, saturated_add(begin, graph_.tensor(t).bytes),
                                        [&](const Mark& mark) { return mark == own || allowed(mark); });
    if (wrong)
      fault(step, t, who + tensor_label(t) + " at offset " + std::to_string(begin) + ", but " + describe(*wrong));
  }

  void check(Index step, Index t, const std::string& who) {
    check(step, t, who, [](const Mark&) { return false; });
  }

  void check_view(Index k, const View& view) {
    const bool apart = offset_[at(view.input)] == kNotPlaced;
    const Bytes expected = apart ? kNotPlaced : saturated_add(offset_[at(view.input)], view.offset);
    if (offset_[at(view.output)] != expected && graph_.tensor(view.output).bytes > 0)
      fault(k, view.output,
            op_label(k) + ": " + tensor_label(view.output) + " must be at offset " + std::to_string(expected) +
                " as a view of " + tensor_label(view.input) + ", but is at " +
                std::to_string(offset_[at(view.output)]));
  }

  void write_workspace(Index k) {
    if (workspace_[at(k)] != kNotPlaced && graph_.op(k).workspace > 0)
      shadow_.write(workspace_[at(k)], saturated_add(workspace_[at(k)], graph_.op(k).workspace), {kNone, k});
  }

  void check_workspace(Index k) {
    if (workspace_[at(k)] == kNotPlaced || graph_.op(k).workspace == 0) return;
    const Bytes begin = workspace_[at(k)];
    const auto wrong = shadow_.mismatch(begin, saturated_add(begin, graph_.op(k).workspace),
                                        [&](const Mark& mark) { return mark == Mark{kNone, k}; });
    if (wrong)
      fault(k, kNone,
            op_label(k) + " uses its workspace at offset " + std::to_string(begin) + ", but " + describe(*wrong));
  }

  void execute(Index k) {
    const Op& op = graph_.op(k);
    for (Index t : op.inputs) check(k, t, op_label(k) + " reads ");
    for (const View& view : op.aliases) value_[at(view.output)] = value_[at(view.input)];
    for (const View& view : op.overwrites) replaces_[at(view.output)] = value_[at(view.input)];
    for (const View& view : op.aliases) check_view(k, view);
    for (const View& view : op.overwrites) check_view(k, view);
    write_workspace(k);
    for (Index t : op.outputs)
      if (value_[at(t)] == t) write(t);
    check_after_writing(k, op);
  }

  // An op may still be reading while it writes: nothing of its own may land on its inputs, save what it
  // overwrites on purpose.
  void check_after_writing(Index k, const Op& op) {
    for (Index t : op.inputs)
      check(k, t, op_label(k) + " writes while it reads ",
            [&](const Mark& mark) { return mark.tensor != kNone && replaces_[at(mark.tensor)] == value_[at(t)]; });
    for (Index t : op.outputs) check(k, t, op_label(k) + " writes ");
    check_workspace(k);
  }

  // The caller gets the outputs, and the next run needs the weights, as they are or as overwrites left them.
  void finish() {
    const Index end = graph_.op_count();
    for (Index t : graph_.outputs()) check(end, t, "at the end the caller gets ");
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (graph_.tensor(t).kind == TensorKind::weight)
        check(end, t, "the next run needs ", [&](const Mark& mark) { return updates(mark.tensor, t); });
  }

  // Whether the value came about by overwriting `root`, in one step or several.
  bool updates(Index value, Index root) const {
    while (value != kNone && value != root) value = replaces_[at(value)];
    return value == root;
  }

  const Graph& graph_;
  std::span<const Bytes> offset_;
  std::span<const Bytes> workspace_;
  std::size_t limit_;
  std::vector<Index> value_;     // per tensor: the tensor whose value it shows, itself unless it is an alias
  std::vector<Index> replaces_;  // per tensor: the value that it overwrites, if any
  Shadow shadow_;
  std::vector<ReplayFault> faults_;
};

void check_length(std::size_t expected, std::size_t got, const char* column, const char* what) {
  if (got != expected)
    throw InvalidPlanError(std::string(column) + " must have one entry per " + what + ": the graph has " +
                           std::to_string(expected) + ", got " + std::to_string(got));
}

}  // namespace

std::vector<ReplayFault> replay(const Graph& graph, std::span<const Bytes> offset,
                                std::span<const Bytes> workspace_offset, std::size_t limit) {
  check_length(graph.tensors().size(), offset.size(), "offset", "tensor");
  check_length(graph.ops().size(), workspace_offset.size(), "workspace_offset", "op");
  return Replay(graph, offset, workspace_offset, limit).run();
}

}  // namespace memplan
