#include "memplan/replay.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <unordered_map>

#include "checks/row_walk.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

// What was written last into a range of bytes: the value of a tensor, or the workspace of an op.
struct Mark {
  Index tensor = kNone;
  Index op = kNone;  // whose workspace, where tensor is kNone

  bool operator==(const Mark&) const = default;
};

// Bytes [begin, end) of a tensor show a value that was written under that mark.
struct Extent {
  Bytes begin;
  Bytes end;
  Mark value;
};

// A region, as ranges of bytes with the mark of their last writer; bytes never written have no range. Where ops are in
// branches, not every run has the last writer, and those before it have marks too.
class Shadow {
 public:
  struct Range {
    Bytes end;
    Mark mark;
    std::vector<Mark> before = {};  // the oldest first
  };

  // Of the marks that are there, those stay for which `stays` says so.
  template <class Stays>
  void write(Bytes begin, Bytes end, Mark mark, Stays&& stays) {
    if (begin == end) return;
    split_at(begin);
    split_at(end);
    std::vector<std::pair<Bytes, Range>> staying;
    const auto last = ranges_.lower_bound(end);
    for (auto it = ranges_.lower_bound(begin); it != last; it = ranges_.erase(it)) {
      Range& range = it->second;
      std::erase_if(range.before, [&](const Mark& old) { return !stays(old); });
      if (stays(range.mark)) range.before.push_back(range.mark);
      range.mark = mark;
      if (!range.before.empty()) staying.emplace_back(it->first, std::move(range));
    }
    for (auto& [from, range] : staying) {
      if (begin < from) ranges_[begin] = {from, mark};
      begin = range.end;
      ranges_[from] = std::move(range);
    }
    if (begin < end) ranges_[begin] = {end, mark};
  }

  struct Mismatch {
    Bytes begin;
    Bytes end;
    std::optional<Mark> found;  // nothing where the bytes were never written
  };

  // The first bytes in [begin, end) that are not as they should be: wrong(range) gives a mark that should not be there,
  // or none (Mark{}) where one is missing, or nothing.
  template <class Wrong>
  std::optional<Mismatch> mismatch(Bytes begin, Bytes end, Wrong&& wrong) const {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second.end > begin) --it;
    for (; begin < end; ++it) {
      if (it == ranges_.end() || it->first >= end) return Mismatch{begin, end, std::nullopt};
      if (it->first > begin) return Mismatch{begin, it->first, std::nullopt};
      if (const std::optional<std::optional<Mark>> found = wrong(it->second))
        return Mismatch{begin, std::min(end, it->second.end), *found};
      begin = it->second.end;
    }
    return std::nullopt;
  }

 private:
  void split_at(Bytes address) {
    auto it = ranges_.lower_bound(address);
    if (it == ranges_.begin()) return;
    Range& before = std::prev(it)->second;
    if (before.end <= address) return;
    ranges_.emplace_hint(it, address, before);
    before.end = address;
  }

  std::map<Bytes, Range> ranges_;  // by first byte; disjoint
};

class Replay {
 public:
  Replay(const Graph& graph, const Addresses& addresses, const ReplayOptions& options)
      : graph_(graph),
        addresses_(addresses),
        options_(options),
        content_(graph.tensors().size()),
        reads_left_(graph.tensors().size(), 0),
        root_(graph.tensors().size()),
        overwriting_(graph.tensors().size(), false),
        writer_(graph.tensors().size(), kNone) {
    find_overwrites();
    for (Index k = 0; k < graph_.op_count(); ++k)
      for (Index t : graph_.op(k).outputs) writer_[at(t)] = k;
    for (Index t = 0; t < graph_.tensor_count(); ++t) content_[at(t)] = {{0, graph_.tensor(t).bytes, {t, kNone}}};
    for (const Op& op : graph_.ops())
      for (Index t : op.inputs) ++reads_left_[at(t)];
    for (Index t : graph_.outputs()) ++reads_left_[at(t)];
    for (Index t = 0; t < graph_.tensor_count(); ++t) reads_left_[at(t)] += is_given(t) ? 1 : 0;
  }

  std::vector<ReplayFault> run() {
    check_layout();
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (is_given(t)) write(t);
    for (Index i = 0; i < graph_.op_count() && faults_.size() < options_.limit; ++i)
      execute(options_.sequence.empty() ? i : options_.sequence[at(i)]);
    finish();
    if (faults_.size() > options_.limit) faults_.resize(options_.limit);
    return std::move(faults_);
  }

 private:
  std::string op_label(Index k) const {
    return "op " + quoted(graph_.op(k).name) + " (step " + std::to_string(k) + ")";
  }
  std::string tensor_label(Index t) const { return "tensor " + quoted(graph_.tensor(t).name); }

  void fault(Index op, Index tensor, std::string message) {
    for (auto it = faults_.rbegin(); it != faults_.rend() && it->op == op; ++it)
      if (it->tensor == tensor) return;
    faults_.push_back({op, tensor, std::move(message)});
  }

  bool is_given(Index t) const {
    const TensorKind kind = graph_.tensor(t).kind;
    return kind == TensorKind::input || kind == TensorKind::weight;
  }

  Bytes begin(Index t) const { return addresses_.tensor[at(t)]; }
  Index region(Index t) const { return addresses_.region.empty() ? kNone : addresses_.region[at(t)]; }
  bool has_bytes(Index t) const { return begin(t) != kNotPlaced && graph_.tensor(t).bytes > 0; }

  // Whether `inside` begins `offset` bytes after `whole`.
  bool lies_at(Index inside, Index whole, Bytes offset) const {
    if (begin(whole) == kNotPlaced || begin(inside) == kNotPlaced) return begin(whole) == begin(inside);
    return region(inside) == region(whole) && begin(inside) == saturated_add(begin(whole), offset);
  }

  // The op that wrote a mark; kNone: the caller, or whoever reserved the bytes.
  Index writer_of(const Mark& mark) const { return mark.tensor == kNone ? mark.op : writer_[at(mark.tensor)]; }
  // Whether some run has both ops; kNone stands for what every run has.
  bool coexist(Index a, Index b) const {
    return !graph_.branches() || a == kNone || b == kNone || graph_.branches()->coexist(a, b);
  }
  // Whether every run that has b has a too.
  bool covers(Index a, Index b) const {
    if (!graph_.branches() || a == kNone || a == b) return true;
    return b == kNone ? graph_.op(a).branch.empty() : graph_.branches()->covers(a, b);
  }

  void mark(Index region, Bytes begin, Bytes end, const Mark& mark) {
    const Index writer = writer_of(mark);
    shadows_[region].write(begin, end, mark, [&](const Mark& old) { return !covers(writer, writer_of(old)); });
  }

  // What op `reader` (kNone: the caller) finds in a range in some run in which it reads a value, and should not.
  template <class Allowed>
  std::optional<std::optional<Mark>> wrong(const Shadow::Range& range, Index reader, const Mark& value,
                                           Allowed&& allowed) const {
    const Index made = writer_of(value);
    for (std::size_t k = range.before.size() + 1; k-- > 0;) {
      const Mark& found = k == range.before.size() ? range.mark : range.before[k];
      const Index by = writer_of(found);
      if (!coexist(by, reader) || !coexist(by, made)) continue;
      if (found == value) return std::nullopt;
      if (!allowed(found)) return std::optional<Mark>(found);
      if (covers(by, made) || covers(by, reader)) return std::nullopt;
    }
    return std::optional<std::optional<Mark>>(std::in_place, std::nullopt);
  }

  // Writes what a tensor shows that is its own; what it shows of others is there already.
  void write(Index t) {
    if (!has_bytes(t)) return;
    for (const Extent& piece : content_[at(t)])
      if (piece.value.tensor == t)
        mark(region(t), saturated_add(begin(t), piece.begin), saturated_add(begin(t), piece.end), piece.value);
  }

  std::string describe(const Shadow::Mismatch& mismatch) const {
    const std::string bytes = "[" + std::to_string(mismatch.begin) + ", " + std::to_string(mismatch.end) + ")";
    if (!mismatch.found) return "bytes " + bytes + " were never written";
    if (mismatch.found->tensor != kNone) return "bytes " + bytes + " hold " + tensor_label(mismatch.found->tensor);
    if (mismatch.found->op == kNone) return "bytes " + bytes + " are reserved";
    return "bytes " + bytes + " hold the workspace of " + op_label(mismatch.found->op);
  }

  // The bytes of t must hold what it shows, or marks that `allowed` lets pass.
  template <class Allowed>
  void check(Index step, Index t, const std::string& who, Allowed&& allowed) {
    if (!has_bytes(t)) return;
    const Index reader = step == graph_.op_count() ? kNone : step;
    for (const Extent& piece : content_[at(t)]) {
      if (!coexist(reader, writer_of(piece.value))) continue;
      const auto mismatch =
          shadows_[region(t)].mismatch(saturated_add(begin(t), piece.begin), saturated_add(begin(t), piece.end),
                                       [&](const auto& range) { return wrong(range, reader, piece.value, allowed); });
      if (!mismatch) continue;
      fault(step, t, who + tensor_label(t) + " at offset " + std::to_string(begin(t)) + ", but " + describe(*mismatch));
      return;
    }
  }

  void check(Index step, Index t, const std::string& who) {
    check(step, t, who, [](const Mark&) { return false; });
  }

  std::string place(Index where, Bytes offset) const {
    if (offset == kNotPlaced) return "outside the arena";
    if (where == kNone) return "at offset " + std::to_string(offset);
    return "outside the arena at offset " + std::to_string(offset) + " of region " + std::to_string(where);
  }

  void check_view(Index k, const View& view) {
    if (graph_.tensor(view.output).bytes == 0 || lies_at(view.output, view.input, view.offset)) return;
    const bool apart = begin(view.input) == kNotPlaced;
    const Bytes expected = apart ? kNotPlaced : saturated_add(begin(view.input), view.offset);
    fault(k, view.output,
          op_label(k) + ": " + tensor_label(view.output) + " must be " + place(region(view.input), expected) +
              " as a view of " + tensor_label(view.input) + ", but is " +
              place(region(view.output), begin(view.output)));
  }

  // Where a tensor or workspace of that name is in the arena; kNotPlaced where it is not, and nothing where there is
  // none.
  std::optional<Bytes> place_of(const std::string& name) const {
    if (const auto t = graph_.find(name)) return region(*t) == kNone ? begin(*t) : kNotPlaced;
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const std::string workspace = graph_.op(k).name + ".workspace";
      if (name.starts_with(workspace) && name.find_first_not_of('_', workspace.size()) == std::string::npos)
        return addresses_.workspace[at(k)];
    }
    return std::nullopt;
  }

  // Who is pinned, who lies together, and who is not there. What is apart is so in the problem alone: it has to do with
  // no value.
  void check_layout() {
    const auto wrong = [&](const std::string& what) { faults_.push_back({graph_.op_count(), kNone, what}); };
    for (const auto& [name, pin] : graph_.layout().pins)
      if (const auto found = place_of(name); found && *found != pin)
        wrong(quoted(name) + " must be at offset " + std::to_string(pin) + ", to which it is pinned, but is " +
              place(kNone, *found));
    for (const std::string& name : graph_.layout().exclude)
      if (const auto found = place_of(name); found && *found != kNotPlaced)
        wrong(quoted(name) + " is excluded from the arena, but is " + place(kNone, *found));
    for (const auto& row : graph_.layout().together) {
      const auto a = place_of(row.a), b = place_of(row.b);
      if (a && b && (*a == kNotPlaced || *b == kNotPlaced || *b - *a != row.distance))
        wrong(quoted(row.b) + " must be " + std::to_string(row.distance) + " bytes after " + quoted(row.a) +
              ", which is " + place(kNone, *a) + ", but is " + place(kNone, *b));
    }
  }

  bool is_reserved(const Reserved& range, Index k) const { return range.first <= k && k < range.last; }

  // Others write what is reserved in this step.
  void write_reserved(Index k) {
    for (const Reserved& range : graph_.layout().reserved)
      if (is_reserved(range, k)) mark(kNone, range.begin, range.end, {kNone, kNone});
  }

  void check_reserved(Index k) {
    const auto check = [&](Index t, Bytes from, Bytes bytes, const std::string& what) {
      for (const Reserved& range : graph_.layout().reserved)
        if (is_reserved(range, k) && std::max(from, range.begin) < std::min(saturated_add(from, bytes), range.end))
          fault(k, t,
                op_label(k) + " writes " + what + " at offset " + std::to_string(from) + ", but bytes [" +
                    std::to_string(range.begin) + ", " + std::to_string(range.end) + ") are reserved");
    };
    for (const Index t : graph_.op(k).outputs)
      if (has_bytes(t) && region(t) == kNone) check(t, begin(t), graph_.tensor(t).bytes, tensor_label(t));
    if (const Bytes from = addresses_.workspace[at(k)]; from != kNotPlaced)
      check(kNone, from, graph_.op(k).workspace, "its workspace");
  }

  void write_workspace(Index k) {
    const Bytes offset = addresses_.workspace[at(k)];
    if (offset != kNotPlaced && graph_.op(k).workspace > 0)
      mark(kNone, offset, saturated_add(offset, graph_.op(k).workspace), {kNone, k});
  }

  void check_workspace(Index k) {
    const Bytes offset = addresses_.workspace[at(k)];
    if (offset == kNotPlaced || graph_.op(k).workspace == 0) return;
    const auto mismatch = shadows_[kNone].mismatch(
        offset, saturated_add(offset, graph_.op(k).workspace),
        [&](const auto& range) { return wrong(range, k, Mark{kNone, k}, [](const Mark&) { return false; }); });
    if (mismatch)
      fault(k, kNone,
            op_label(k) + " uses its workspace at offset " + std::to_string(offset) + ", but " + describe(*mismatch));
  }

  void execute(Index k) {
    const Op& op = graph_.op(k);
    write_reserved(k);
    for (Index t : op.inputs) check(k, t, op_label(k) + " reads ");
    for (const View& view : op.aliases) check_view(k, view);
    for (const View& view : op.overwrites) check_view(k, view);
    for (const View& view : op.aliases) show(view);
    for (const View& view : op.slices)
      if (has_bytes(view.output) && lies_at(view.output, view.input, view.offset)) show(view);
    for (const View& part : op.concats)
      if (has_bytes(part.input) && lies_at(part.input, part.output, part.offset)) show_part(part);
    write_workspace(k);
    for (Index t : op.outputs) write(t);
    check_after_writing(k, op);
    check_reserved(k);
    for (Index t : op.inputs) --reads_left_[at(t)];
    for (const std::vector<Index>* tensors : {&op.inputs, &op.outputs})
      for (Index t : *tensors)
        if (reads_left_[at(t)] == 0) std::vector<Extent>().swap(content_[at(t)]);
  }

  // From here on the output shows these bytes of the input.
  void show(const View& view) {
    std::vector<Extent> shown;
    const Bytes bytes = graph_.tensor(view.output).bytes;
    for (const Extent& piece : content_[at(view.input)]) {
      const Bytes from = std::max(piece.begin, view.offset);
      const Bytes to = std::min(piece.end, view.offset + bytes);
      if (from < to) shown.push_back({from - view.offset, to - view.offset, piece.value});
    }
    content_[at(view.output)] = std::move(shown);
  }

  // From here on the output shows the input in those bytes; the rest of it stays as it was.
  void show_part(const View& part) {
    std::vector<Extent>& content = content_[at(part.output)];
    const Bytes end = part.offset + graph_.tensor(part.input).bytes;
    std::vector<Extent> shown;
    for (const Extent& piece : content) {
      if (piece.begin < part.offset) shown.push_back({piece.begin, std::min(piece.end, part.offset), piece.value});
      if (piece.end > end) shown.push_back({std::max(piece.begin, end), piece.end, piece.value});
    }
    for (const Extent& piece : content_[at(part.input)])
      shown.push_back({piece.begin + part.offset, piece.end + part.offset, piece.value});
    content = std::move(shown);
  }

  // An op may still be reading while it writes: nothing of its own may land on its inputs, save what it overwrites on
  // purpose, or writes in place over inputs that it names.
  void check_after_writing(Index k, const Op& op) {
    const std::vector<Index> walked = walk(k, op);
    for (Index t : op.inputs)
      check(k, t, op_label(k) + " writes while it reads ", [&](const Mark& mark) {
        return may_land_on(op, mark, t) || std::find(walked.begin(), walked.end(), mark.tensor) != walked.end();
      });
    for (Index t : op.outputs) check(k, t, op_label(k) + " writes ");
    check_workspace(k);
  }

  // An op whose loops are ordered may write over rows that it has read. Runs these loops if outputs lie on inputs, and
  // returns the outputs of which it is known now whether they do harm.
  std::vector<Index> walk(Index k, const Op& op) {
    if (op.ordered.empty() || !op.aliases.empty() || !op.overwrites.empty()) return {};
    std::vector<WalkedTensor> inputs, outputs;
    const auto lies_on = [&](Index o, Index t) {
      return has_bytes(t) && has_bytes(o) && region(t) == kNone && region(o) == kNone &&
             begin(t) < saturated_add(begin(o), graph_.tensor(o).bytes) &&
             begin(o) < saturated_add(begin(t), graph_.tensor(t).bytes) && !may_land_on(op, {o, kNone}, t);
    };
    for (std::size_t o = 0; o < op.outputs.size(); ++o)
      outputs.push_back({o, begin(op.outputs[o]), written_of(op.outputs[o])});
    std::erase_if(outputs, [&](const WalkedTensor& output) {
      return output.written.empty() || std::none_of(op.inputs.begin(), op.inputs.end(),
                                                    [&](Index t) { return lies_on(op.outputs[output.position], t); });
    });
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (std::any_of(outputs.begin(), outputs.end(),
                      [&](const WalkedTensor& output) { return lies_on(op.outputs[output.position], op.inputs[i]); }))
        inputs.push_back({i, begin(op.inputs[i])});
    if (inputs.empty()) return {};
    if (const std::string wrong = walk_rows(graph_, op, inputs, outputs); !wrong.empty())
      fault(k, op.inputs[inputs.front().position], op_label(k) + " " + wrong);
    std::vector<Index> walked;
    for (const WalkedTensor& output : outputs) walked.push_back(op.outputs[output.position]);
    return walked;
  }

  // The bytes that its op writes: what a tensor shows of others is there already.
  std::vector<ByteRun> written_of(Index t) const {
    std::vector<ByteRun> runs;
    for (const Extent& piece : content_[at(t)])
      if (has_bytes(t) && piece.value.tensor == t) runs.push_back({piece.begin, piece.end});
    std::sort(runs.begin(), runs.end(), [](const ByteRun& a, const ByteRun& b) { return a.begin < b.begin; });
    return runs;
  }

  bool may_land_on(const Op& op, const Mark& mark, Index input) const {
    for (const View& view : op.overwrites)
      if (view.output == mark.tensor && overwrites(view.output, input)) return true;
    for (const View& view : op.inplace)
      if (view.output == mark.tensor && view.input == input && lies_at(view.output, input, view.offset)) return true;
    return false;
  }

  // The caller gets the outputs, and finds the weights, and the inputs that it keeps, as they were or as overwrites
  // left them.
  void finish() {
    const Index end = graph_.op_count();
    for (Index t : graph_.outputs()) check(end, t, "at the end the caller gets ");
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      if (!is_kept(t)) continue;
      const bool weight = graph_.tensor(t).kind == TensorKind::weight;
      check(end, t, weight ? "the next run needs " : "the caller keeps ",
            [&](const Mark& mark) { return overwrites(mark.tensor, t); });
    }
  }

  bool is_kept(Index t) const {
    const TensorKind kind = graph_.tensor(t).kind;
    const auto& donated = options_.donated;
    if (kind == TensorKind::input)  // in the arena an input's bytes are free after its last read
      return region(t) != kNone && std::find(donated.begin(), donated.end(), t) == donated.end();
    return kind == TensorKind::weight;
  }

  // Whether the graph says that `tensor` is written over bytes that `other` shows too.
  bool overwrites(Index tensor, Index other) const {
    return tensor != kNone && overwriting_[at(tensor)] && root_[at(tensor)] == root_[at(other)];
  }

  void find_overwrites() {
    std::iota(root_.begin(), root_.end(), Index{0});
    for (const Op& op : graph_.ops()) {
      for (const View& view : op.aliases) root_[at(view.output)] = root_[at(view.input)];
      for (const View& view : op.overwrites) root_[at(view.output)] = root_[at(view.input)];
      for (const View& view : op.overwrites) overwriting_[at(view.output)] = true;
    }
  }

  const Graph& graph_;
  const Addresses& addresses_;
  const ReplayOptions& options_;
  std::vector<std::vector<Extent>>
      content_;  // per tensor: what it shows, its own value unless it is a view; forgotten after its last read
  std::vector<Index> reads_left_;              // per tensor: by ops that have not run, and at the end
  std::unordered_map<Index, Shadow> shadows_;  // per region
  std::vector<Index> root_;                    // per tensor: whose bytes it must lie in
  std::vector<bool> overwriting_;              // per tensor: whether it must be written over another
  std::vector<Index> writer_;                  // per tensor: the op that writes it
  std::vector<ReplayFault> faults_;
};

void check_length(std::size_t expected, std::size_t got, const char* column, const char* what) {
  if (got != expected)
    throw InvalidPlanError(std::string(column) + " must have one entry per " + what + ": the graph has " +
                           std::to_string(expected) + ", got " + std::to_string(got));
}

}  // namespace

std::vector<ReplayFault> replay(const Graph& graph, const Addresses& addresses, const ReplayOptions& options) {
  check_length(graph.tensors().size(), addresses.tensor.size(), "offset", "tensor");
  check_length(graph.ops().size(), addresses.workspace.size(), "workspace_offset", "op");
  if (!addresses.region.empty()) check_length(graph.tensors().size(), addresses.region.size(), "region", "tensor");
  if (!options.sequence.empty()) check_length(graph.ops().size(), options.sequence.size(), "sequence", "op");
  return Replay(graph, addresses, options).run();
}

std::vector<Index> legal_sequence(const Graph& graph, std::uint64_t seed) {
  std::vector<Index> waits(graph.ops().size(), 0);  // per op: how many that must come before have not run
  std::vector<std::vector<Index>> waiting(graph.ops().size());
  const auto order = [&](Index before, Index k) {
    waiting[at(before)].push_back(k);
    ++waits[at(k)];
  };
  std::unordered_map<Index, Index> producer;
  std::unordered_map<int, Index> last_on;
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    for (Index t : op.inputs)
      if (const auto found = producer.find(t); found != producer.end()) order(found->second, k);
    for (Index before : op.after) order(before, k);
    if (const auto last = last_on.find(op.stream); last != last_on.end()) order(last->second, k);
    last_on[op.stream] = k;
    for (Index t : op.outputs) producer[t] = k;
  }
  std::vector<Index> ready;
  for (Index k = 0; k < graph.op_count(); ++k)
    if (waits[at(k)] == 0) ready.push_back(k);
  std::mt19937_64 random(seed);
  std::vector<Index> sequence;
  while (!ready.empty()) {
    const std::size_t i = random() % ready.size();
    const Index k = ready[i];
    ready[i] = ready.back();
    ready.pop_back();
    sequence.push_back(k);
    for (Index next : waiting[at(k)])
      if (--waits[at(next)] == 0) ready.push_back(next);
  }
  return sequence;
}

}  // namespace memplan
