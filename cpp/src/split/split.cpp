#include "memplan/split.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "memplan/errors.hpp"
#include "memplan/happens_before.hpp"
#include "split/blocks.hpp"
#include "split/inplace_rows.hpp"
#include "split/region_order.hpp"
#include "split/region_rows.hpp"

namespace memplan {

namespace {

constexpr std::string_view kKeep = "memplan.keep";      // moves rows to the front of their buffer
constexpr std::string_view kGather = "memplan.gather";  // copies rows of a block to a buffer

// What there is of a tensor now: rows from `base` on, in this tensor of the split graph.
struct Held {
  Index tensor = kNone;  // of the split graph
  std::int64_t base = 0;
  std::int64_t capacity = 0;  // rows
  std::int64_t end = 0;       // rows before this one have been written
  int version = 0;
};

// Rows of a tensor in a tensor of their own.
struct BlockOfRows {
  RowRange rows;
  Index tensor;  // of the split graph
};

// Writes the ops of regions in pieces, and all others as they are.
class Splitter {
 public:
  // Without names nothing is checked: it is the graph that comes with names.
  Splitter(const Graph& graph, std::span<const Region> regions, const StorageOptions& storage, bool named)
      : graph_(graph), storage_(storage), named_(named) {
    if (!on_one_stream(graph)) throw UnsupportedError("split takes graphs whose ops are on one stream");
    if (graph.branches()) throw UnsupportedError("split does not support branches, which this graph has");
    if (has_bodies(graph)) throw UnsupportedError("split does not support bodies of loops, which this graph has");
    if (!graph.layout().empty())
      throw UnsupportedError(
          "split does not support pins, reserved bytes, excluded tensors, or tensors together or apart, which this "
          "graph asks for");
    region_of_.assign(graph.ops().size(), kNone);
    for (const Region& region : regions) {
      rows_.emplace_back(graph, region);
      for (std::size_t r = 0; r < region.ops.size(); ++r) {
        Index& in = region_of_[at(region.ops[r].op)];
        if (in != kNone) throw GraphError("op " + quoted(graph.op(region.ops[r].op).name) + " is in two regions");
        if (!rows_.back().is_before[r]) in = static_cast<Index>(rows_.size()) - 1;
      }
    }
    tensor_.assign(graph.tensors().size(), kNone);
    last_.assign(graph.ops().size(), kNone);
    if (named) {
      for (const Tensor& tensor : graph.tensors()) names_.insert(tensor.name);
      for (const Op& op : graph.ops()) op_names_.insert(op.name);
    }
    for (const Index t : tensors_in_blocks(graph, rows_, region_of_)) blocks_.try_emplace(t);
    keep_tensors();
  }

  SplitGraph run() {
    for (const Index node : order_with_regions(graph_, region_of_, rows_.size())) {
      if (node < graph_.op_count())
        add_whole(node);
      else
        add_region(rows_[at(node - graph_.op_count())]);
    }
    for (const Index t : graph_.outputs()) parts_.outputs.push_back(tensor_[at(t)]);
    Graph graph = named_ ? Graph(std::move(parts_)) : Graph::trusted(std::move(parts_));
    std::vector<Index> reruns;
    for (const RegionRows& rows : rows_) reruns.insert(reruns.end(), rows.reruns.begin(), rows.reruns.end());
    std::vector<Index> blocks;
    for (const auto& [t, made] : blocks_) blocks.push_back(t);
    return {std::move(graph), std::move(pieces_), std::move(tensor_of_),
            kept_bytes_,      std::move(reruns),  std::move(blocks)};
  }

 private:
  // Tensors that are not made by rows, or that leave their region, stay. So do all outputs of a view of which one leaves.
  void keep_tensors() {
    std::vector<bool> goes(graph_.tensors().size(), false);
    for (const RegionRows& rows : rows_)
      for (const auto& [t, one] : rows.made) goes[at(t)] = !one.leaves || blocks_.contains(t);
    for (const RegionRows& rows : rows_)
      for (std::size_t r = 0; r < rows.region.ops.size(); ++r)
        if (rows.is_view[r] && !rows.is_before[r] && leaves(rows, r))
          for (const Index t : rows.op(r).outputs) goes[at(t)] = false;
    for (Index t = 0; t < graph_.tensor_count(); ++t) {
      if (goes[at(t)]) continue;
      tensor_[at(t)] = add_tensor(like(t), t);
    }
  }

  void add_whole(Index k) {
    const Op& op = graph_.op(k);
    Op whole = like(op);
    whole.inputs = stay(op.inputs);
    whole.outputs = stay(op.outputs);
    whole.workspace = op.workspace;
    whole.aliases = stay(op.aliases);
    whole.inplace = stay(op.inplace);
    whole.overwrites = stay(op.overwrites);
    whole.stream = op.stream;
    whole.slices = stay(op.slices);
    whole.concats = stay(op.concats);
    whole.after = newest(op.after);
    whole.cost = op.cost;
    whole.flops = op.flops;
    if (named_) {
      whole.name = op.name;
      whole.branch = op.branch;
      whole.loops = op.loops;
      whole.ordered = op.ordered;
      whole.reads_first = op.reads_first;
      whole.body = op.body;
    }
    Piece piece;
    piece.of = k;
    add(std::move(whole), std::move(piece));
  }

  // A tensor that stays, in the split graph.
  Index stays(Index t) const {
    if (tensor_[at(t)] == kNone)
      throw RegionError("tensor " + quoted(graph_.tensor(t).name) + " is read whole, and never is");
    return tensor_[at(t)];
  }

  std::vector<Index> stay(const std::vector<Index>& tensors) const {
    std::vector<Index> found;
    found.reserve(tensors.size());
    for (const Index t : tensors) found.push_back(stays(t));
    return found;
  }

  std::vector<View> stay(const std::vector<View>& views) const {
    std::vector<View> found;
    found.reserve(views.size());
    for (const View& view : views) found.push_back({stays(view.output), stays(view.input), view.offset});
    return found;
  }

  // Whoever runs after an op runs after its last piece.
  std::vector<Index> newest(const std::vector<Index>& ops) const {
    std::vector<Index> found;
    for (const Index k : ops) {
      if (last_[at(k)] == kNone)
        throw RegionError("op " + quoted(graph_.op(k).name) +
                          " cannot be split: one that runs after it is needed first");
      found.push_back(last_[at(k)]);
    }
    return found;
  }

  void add_region(const RegionRows& rows) {
    const std::size_t count = rows.region.ops.size();
    find_inplace(rows);
    held_.clear();
    sums_.clear();
    statistics_.assign(count, kNone);
    number_.assign(count, 0);
    of_.assign(count, 0);
    for (const Pass& pass : rows.passes)
      for (const Visit& visit : pass.visits)
        if (!visit.statistics) ++of_[at(visit.op)];
    add_early(rows, kNone);
    for (Index p = 0; at(p) < rows.passes.size(); ++p) {
      pass_ = &rows.passes[at(p)];
      std::erase_if(held_, [&](const auto& one) { return !stays_held(rows, one.first); });
      for (Index v = 0; at(v) < pass_->visits.size(); ++v) {
        const Visit& visit = pass_->visits[at(v)];
        const std::size_t r = at(visit.op);
        if (visit.statistics) {
          add_statistics(rows, r, visit.iterations);
          continue;
        }
        ++number_[r];
        if (rows.is_view[r])
          add_view(rows, r, v);
        else
          add_part(rows, r, v);
      }
      add_early(rows, p);
    }
    for (std::size_t r = 0; r < count; ++r)
      if (rows.is_view[r] && !rows.is_before[r] && leaves(rows, r)) add_whole(rows.region.ops[r].op);
  }

  void find_inplace(const RegionRows& rows) {
    std::vector<bool> ran(graph_.ops().size());
    for (std::size_t k = 0; k < ran.size(); ++k) ran[k] = last_[k] != kNone;
    over_ = rows_in_place(rows, storage_, ran);
    std::erase_if(over_, [&](const auto& one) { return blocks_.contains(one.first) || blocks_.contains(one.second); });
    written_over_by_.clear();
    for (const auto& [t, x] : over_) written_over_by_.emplace(x, t);
  }

  // A tensor that no op of the region makes by rows. The rows that are left of it may lie in another by now.
  Index given(Index t) const {
    const auto by = written_over_by_.find(t);
    if (by == written_over_by_.end()) return tensor_[at(t)];
    const auto now = held_.find(by->second);
    return now == held_.end() ? tensor_[at(t)] : now->second.tensor;
  }

  // What one pass makes whole, later ones read.
  static bool stays_held(const RegionRows& rows, Index t) {
    const MadeByRows& made = rows.made.at(t);
    return made.leaves && !rows.is_view[at(made.maker)];
  }

  static bool leaves(const RegionRows& rows, std::size_t r) {
    const auto& outputs = rows.op(r).outputs;
    return std::any_of(outputs.begin(), outputs.end(), [&](Index t) { return rows.made.at(t).leaves; });
  }

  // What is made before the parts of ops, and after this pass, which made statistics; kNone: before the first pass. So
  // do ops run whole.
  void add_early(const RegionRows& rows, Index pass) {
    for (std::size_t r = 0; r < rows.region.ops.size(); ++r) {
      if (rows.runs_whole(r) && (rows.pass[r] == 0 ? kNone : rows.pass[r] - 1) == pass)
        add_whole(rows.region.ops[r].op);
      if (rows.is_before[r] || rows.runs_whole(r) || rows.statistics_pass[r] != pass) continue;
      if (rows.loop(r).statistics && pass == kNone) add_statistics(rows, r);
      for (const EarlyOutput& early : rows.loop(r).early) add_early(rows, r, early);
    }
  }

  // Statistics of what is there, which take no pass: all at once, or block by block.
  void add_statistics(const RegionRows& rows, std::size_t r) {
    std::size_t parts = 1;
    for (const Index i : rows.loop(r).statistics->inputs)
      if (const auto blocks = blocks_.find(rows.op(r).inputs[at(i)]); blocks != blocks_.end())
        parts = std::max(parts, blocks->second.size());
    const std::int64_t extent = rows.loop(r).extent, count = static_cast<std::int64_t>(parts);
    for (std::int64_t part = 0; part < count; ++part)
      if (const RowRange some{extent * part / count, extent * (part + 1) / count}; !some.empty())
        add_statistics(rows, r, some);
  }

  void add_early(const RegionRows& rows, std::size_t r, const EarlyOutput& early) {
    const Op& op = rows.op(r);
    Op made = like(op);
    if (named_) made.name = new_name(op_names_, op.name + "/early");
    for (const Index i : early.inputs) made.inputs.push_back(tensor_[at(op.inputs[at(i)])]);
    made.outputs = {tensor_[at(op.outputs[at(early.output)])]};
    Piece piece = part_of(rows, r, Piece::Does::early, {});
    for (const Index i : early.inputs) piece.reads[at(i)].tensor = tensor_[at(op.inputs[at(i)])];
    piece.writes[at(early.output)].tensor = tensor_[at(op.outputs[at(early.output)])];
    read_statistics(r, made, piece);
    add(std::move(made), std::move(piece));
  }

  void read_statistics(std::size_t r, Op& op, Piece& piece) const {
    if (statistics_[r] == kNone) return;
    read_too(op, statistics_[r]);
    piece.statistics = statistics_[r];
  }

  // Some iterations are added to the statistics of the op's loop.
  void add_statistics(const RegionRows& rows, std::size_t r, RowRange iterations) {
    const Op& op = rows.op(r);
    const Statistics& statistics = *rows.loop(r).statistics;
    Op part = like(op);
    Piece piece = part_of(rows, r, Piece::Does::statistics, iterations);
    const std::set<Index> inputs(statistics.inputs.begin(), statistics.inputs.end());
    for (const Index i : inputs) read_input(rows, r, at(i), iterations, part, piece);
    Tensor tensor;
    tensor.bytes = statistics.bytes;
    if (named_) {
      tensor.name = new_name(names_, op.name + "/statistics");
      part.name = new_name(op_names_, op.name + "/statistics");
    }
    const Index now = add_tensor(std::move(tensor), kNone);
    overwrite(statistics_[r], now, part);
    part.outputs = {now};
    piece.statistics = statistics_[r] = now;
    add(std::move(part), std::move(piece));
  }

  // A view of what there is of its bytes.
  void add_view(const RegionRows& rows, std::size_t r, Index v) {
    const Op& op = rows.op(r);
    const RowRange iterations = pass_->visits[at(v)].iterations;
    Op part = part_like(op, r);
    Piece piece = part_of(rows, r, Piece::Does::part, iterations);
    read_inputs(rows, r, iterations, part, piece);
    for (const View& view : op.aliases) {
      const std::size_t o = at(std::find(op.outputs.begin(), op.outputs.end(), view.output) - op.outputs.begin());
      const Index root = rows.root.at(view.output);
      if (!held_.contains(root))
        throw RegionError("op " + quoted(op.name) + " cannot be split: it views no row in a step");
      const Held& bytes = held_.at(root);
      const Held& base = held_.at(op.inputs[at(rows.loop(r).reads.front().input)]);
      Tensor tensor = version_of(view.output, r);
      tensor.bytes = parts_.tensors[at(bytes.tensor)].bytes;
      tensor.shape.reset();
      Held held{add_tensor(std::move(tensor), view.output), rows.row_of_view(r, base.base), 0, 0, 0};
      part.outputs[o] = held.tensor;
      part.aliases.push_back({held.tensor, bytes.tensor, 0});
      read_too(part, bytes.tensor);
      const MadeByRows& made = rows.made.at(view.output);
      piece.writes[o] = {held.tensor, false, made.axes, pass_->uses.at(view.output).written_at(v), held.base};
      held_[view.output] = held;
    }
    add(std::move(part), std::move(piece));
  }

  void add_part(const RegionRows& rows, std::size_t r, Index v) {
    const Op& op = rows.op(r);
    const RowRange iterations = pass_->visits[at(v)].iterations;
    for (const LoopWrite& write : rows.loop(r).writes) make_room(rows, r, op.outputs[at(write.output)], v);
    Op part = part_like(op, r);
    Piece piece = part_of(rows, r, Piece::Does::part, iterations);
    const double share = static_cast<double>(iterations.size()) / static_cast<double>(rows.loop(r).extent);
    part.workspace = workspace_of_piece(graph_, op, rows.loop(r), iterations);
    if (op.cost) part.cost = *op.cost * share;
    if (op.flops) part.flops = *op.flops * share;
    part.after = newest(op.after);
    read_inputs(rows, r, iterations, part, piece);
    for (const EarlyOutput& early : rows.loop(r).early)
      part.inputs.push_back(tensor_[at(op.outputs[at(early.output)])]);
    read_statistics(r, part, piece);
    for (const LoopWrite& write : rows.loop(r).writes) write_rows(rows, r, at(write.output), v, part, piece);
    for (const Index output : rows.loop(r).sums) write_sum(r, op, at(output), part, piece);
    may_write_over(rows, part, piece);
    part.workspace += gathered_bytes(rows, r, piece);
    if (op.pieces_copied) part.workspace += copied_bytes(rows, r, v);
    std::erase(part.outputs, kNone);  // what was made early
    add(std::move(part), std::move(piece));
  }

  // What a piece copies before: rows that lie scattered in a buffer which has more of them, and rows that get padding.
  Bytes gathered_bytes(const RegionRows& rows, std::size_t r, const Piece& piece) const {
    Bytes bytes = 0;
    for (const LoopRead& said : rows.loop(r).reads) {
      const Index i = said.input;
      const HeldRows& read = piece.reads[at(i)];
      if (read.whole || std::ranges::find(rows.loop(r).copied, i) == rows.loop(r).copied.end()) continue;
      const Tensor& tensor = graph_.tensor(rows.op(r).inputs[at(i)]);
      const std::int64_t all = rows_of(tensor, read.axes);
      const std::int64_t room = room_of(rows.op(r).inputs[at(i)], read, all);
      const std::int64_t padded = ((piece.iterations.size() - 1) * said.step + said.window + said.per - 1) / said.per;
      const bool gathered = read.rows.size() < room && lie_scattered(tensor, read.axes);
      if (gathered || read.rows.size() < padded) bytes += std::max(read.rows.size(), padded) * (tensor.bytes / all);
    }
    return bytes;
  }

  // Rows for which there is room in the tensor that a piece reads.
  std::int64_t room_of(Index t, const HeldRows& read, std::int64_t all) const {
    if (blocks_.contains(t) && read.tensor != kNone)
      return parts_.tensors[at(read.tensor)].bytes * all / graph_.tensor(t).bytes;
    const auto held = held_.find(t);
    return held == held_.end() || held->second.capacity == 0 ? all : held->second.capacity;
  }

  // What a piece computes apart: rows that lie scattered in a buffer which has more of them.
  Bytes copied_bytes(const RegionRows& rows, std::size_t r, Index v) const {
    const Op& op = rows.op(r);
    Bytes bytes = 0;
    for (const LoopWrite& write : rows.loop(r).writes) {
      const Index t = op.outputs[at(write.output)];
      const MadeByRows& made = rows.made.at(t);
      const std::int64_t count = pass_->uses.at(t).written_at(v).size();
      if (count < held_.at(t).capacity && lie_scattered(graph_.tensor(t), made.axes))
        bytes += count * (graph_.tensor(t).bytes / made.rows);
    }
    return bytes;
  }

  Op part_like(const Op& op, std::size_t r) {
    Op part = like(op);
    if (named_) part.name = new_name(op_names_, numbered(op.name, r));
    part.outputs.assign(op.outputs.size(), kNone);
    return part;
  }

  // An op of the same kind, without tensors.
  Op like(const Op& op) const {
    Op made;
    if (named_) made.type = op.type;
    made.recompute = op.recompute;
    return made;
  }

  // A tensor as it is in the graph.
  Tensor like(Index t) const {
    const Tensor& tensor = graph_.tensor(t);
    if (named_) return tensor;
    Tensor made;
    made.bytes = tensor.bytes;
    made.kind = tensor.kind;
    return made;
  }

  // A version of it, for what a step writes.
  Tensor version_of(Index t, std::size_t r) {
    Tensor tensor = like(t);
    if (named_) tensor.name = new_name(names_, numbered(tensor.name, r));
    tensor.kind = TensorKind::intermediate;
    return tensor;
  }

  static void read_too(Op& op, Index tensor) {
    if (std::find(op.inputs.begin(), op.inputs.end(), tensor) == op.inputs.end()) op.inputs.push_back(tensor);
  }

  static Piece part_of(const RegionRows& rows, std::size_t r, Piece::Does does, RowRange iterations) {
    Piece piece;
    piece.does = does;
    piece.of = rows.region.ops[r].op;
    piece.loop = rows.region.ops[r].loop;
    piece.iterations = iterations;
    piece.reads.resize(rows.op(r).inputs.size());
    piece.writes.resize(rows.op(r).outputs.size());
    return piece;
  }

  void read_inputs(const RegionRows& rows, std::size_t r, RowRange iterations, Op& part, Piece& piece) {
    for (std::size_t i = 0; i < rows.op(r).inputs.size(); ++i) read_input(rows, r, i, iterations, part, piece);
  }

  void read_input(const RegionRows& rows, std::size_t r, std::size_t i, RowRange iterations, Op& part, Piece& piece) {
    const Index t = rows.op(r).inputs[i];
    HeldRows& held = piece.reads[i];
    if (const auto blocks = blocks_.find(t); blocks != blocks_.end()) {
      const auto& reads = rows.loop(r).reads;
      const LoopRead& read = *std::ranges::find(reads, static_cast<Index>(i), &LoopRead::input);
      held = in_one(rows, r, t, read.axes, rows_read(read, iterations, rows_of(graph_.tensor(t), read.axes)));
      if (held.tensor != kNone) read_too(part, held.tensor);
      return;
    }
    const auto found = held_.find(t);
    held.tensor = found != held_.end() ? found->second.tensor : rows.made.contains(t) ? kNone : given(t);
    held.base = found == held_.end() ? 0 : found->second.base;
    held.whole = held.tensor != kNone;
    if (held.tensor == kNone) return;  // no row of it is read until now, and none is made
    read_too(part, held.tensor);
    for (const LoopRead& read : rows.loop(r).reads)
      if (at(read.input) == i) {
        held.whole = false;
        held.axes = read.axes;
        held.rows = rows_read(read, iterations, rows_of(graph_.tensor(t), read.axes));
      }
  }

  // Rows of a tensor in blocks, as they lie in one tensor: in their block, or gathered from several.
  HeldRows in_one(const RegionRows& rows, std::size_t r, Index t, const Axes& axes, RowRange wanted) {
    HeldRows found{kNone, false, axes, wanted, wanted.begin};
    if (wanted.empty()) return found;
    const std::vector<BlockOfRows>& blocks = blocks_.at(t);
    auto block = std::ranges::find_if(blocks, [&](const BlockOfRows& one) { return wanted.begin < one.rows.end; });
    if (wanted.end <= block->rows.end) return {block->tensor, false, axes, wanted, block->rows.begin};
    const Bytes row = graph_.tensor(t).bytes / rows_of(graph_.tensor(t), axes);
    for (; block != blocks.end() && block->rows.begin < wanted.end; ++block) {
      const RowRange here{std::max(wanted.begin, block->rows.begin), std::min(wanted.end, block->rows.end)};
      Op gather;
      Piece piece = part_of(rows, r, Piece::Does::gather, {});
      Tensor tensor = like(t);
      tensor.kind = TensorKind::intermediate;
      tensor.bytes = wanted.size() * row;
      if (named_) {
        replace_axes(*tensor.shape, axes, wanted.size());
        tensor.name = new_name(names_, numbered(graph_.tensor(t).name, r) + ":gathered");
        gather.name = new_name(op_names_, tensor.name);
        gather.type = kGather;
      }
      const Index now = add_tensor(std::move(tensor), t);
      gather.inputs = {block->tensor};
      gather.outputs = {now};
      overwrite(found.tensor, now, gather);
      gather.cost = static_cast<double>(2 * here.size() * row);
      piece.reads.assign(1, {block->tensor, false, axes, here, block->rows.begin});
      piece.writes.assign(1, {now, false, axes, here, wanted.begin});
      add(std::move(gather), std::move(piece));
      found.tensor = now;
    }
    return found;
  }

  // A buffer for the rows that a visit writes, with those that are kept in front of them.
  void make_room(const RegionRows& rows, std::size_t r, Index t, Index v) {
    const MadeByRows& made = rows.made.at(t);
    const auto found = held_.find(t);
    if (blocks_.contains(t)) {
      const RowRange written = pass_->uses.at(t).written_at(v);
      held_[t] = {kNone, written.begin, written.size(), 0, 0};
      return;
    }
    if (made.leaves) {
      if (found != held_.end()) return;
      const auto over = over_.find(t);
      held_[t] = {over == over_.end() ? kNone : tensor_[at(over->second)], 0, made.rows, 0, 0};
      return;
    }
    const RowUses& uses = pass_->uses.at(t);
    const RowRange written = uses.written_at(v);
    if (rows.region.ops[r].again) {
      held_[t] = {kNone, written.begin, written.size(), 0, 0};
      return;
    }
    const std::int64_t from = uses.first_held(v);
    if (found == held_.end() || from >= found->second.end) {
      held_[t] = {kNone, from, uses.room_from(v), 0, 0};
      return;
    }
    if (written.end - found->second.base > found->second.capacity) keep_rows(rows, r, t, from, v);
  }

  void keep_rows(const RegionRows& rows, std::size_t r, Index t, std::int64_t from, Index v) {
    const MadeByRows& made = rows.made.at(t);
    Held& held = held_.at(t);
    const RowRange kept{from, pass_->uses.at(t).written_at(v).begin};
    const Bytes bytes = kept.size() * (graph_.tensor(t).bytes / made.rows);
    Op keep;
    Piece piece = part_of(rows, r, Piece::Does::keep, {});
    piece.reads.assign(1, {held.tensor, false, made.axes, kept, held.base});
    const Index before = held.tensor;
    Tensor tensor = parts_.tensors[at(before)];
    if (named_) {
      tensor.name = new_name(names_, numbered(graph_.tensor(t).name, r) + ":kept");
      keep.name = new_name(op_names_, tensor.name);
      keep.type = kKeep;
    }
    held.tensor = add_tensor(std::move(tensor), t);
    keep.inputs = {before};
    keep.outputs = {held.tensor};
    keep.overwrites = {{held.tensor, before, 0}};
    keep.cost = static_cast<double>(2 * bytes);
    held.base = from;
    piece.writes.assign(1, {held.tensor, false, made.axes, kept, held.base});
    kept_bytes_ += bytes;
    add(std::move(keep), std::move(piece));
  }

  // Writes rows into the buffer of a tensor: a new version of it, which overwrites the one before.
  void write_rows(const RegionRows& rows, std::size_t r, std::size_t output, Index v, Op& part, Piece& piece) {
    const Index t = rows.op(r).outputs[output];
    const MadeByRows& made = rows.made.at(t);
    Held& held = held_.at(t);
    const auto blocks = blocks_.find(t);
    const bool joined = made.leaves && blocks == blocks_.end();
    const bool last = joined && number_[r] == of_[r];
    const Tensor& whole = graph_.tensor(t);
    Index now = last ? tensor_[at(t)] : kNone;
    if (!last) {
      Tensor tensor = version_of(t, r);
      if (!joined) {
        tensor.bytes = held.capacity * (whole.bytes / made.rows);
        if (named_) replace_axes(*tensor.shape, made.axes, held.capacity);
      }
      now = add_tensor(std::move(tensor), t);
    }
    overwrite(held.tensor, now, part);
    part.outputs[output] = now;
    held.tensor = now;
    const RowRange written = pass_->uses.at(t).written_at(v);
    held.end = written.end;
    ++held.version;
    if (blocks != blocks_.end()) blocks->second.push_back({written, now});
    piece.writes[output] = {now, false, made.axes, written, held.base};
  }

  static void replace_axes(std::vector<std::int64_t>& shape, const Axes& axes, std::int64_t rows) {
    shape[at(axes.first)] = rows;
    shape.erase(shape.begin() + axes.first + 1, shape.begin() + axes.last + 1);
  }

  void write_sum(std::size_t r, const Op& op, std::size_t output, Op& part, Piece& piece) {
    const Index t = op.outputs[output];
    Index now = tensor_[at(t)];
    if (number_[r] < of_[r]) now = add_tensor(version_of(t, r), t);
    const auto before = sums_.find(t);
    overwrite(before == sums_.end() ? kNone : before->second, now, part);
    part.outputs[output] = now;
    sums_[t] = now;
    piece.writes[output] = {now, true, {}, {}, 0};
  }

  static void overwrite(Index before, Index now, Op& part) {
    if (before == kNone) return;
    read_too(part, before);
    part.overwrites.push_back({now, before, 0});
  }

  // A part may be written over a part if both buffers hold these rows alone, in this step alone.
  void may_write_over(const RegionRows& rows, Op& part, const Piece& piece) const {
    const Op& op = graph_.op(piece.of);
    for (const View& view : op.inplace) {
      if (view.offset != 0) continue;
      const auto in = rows.made.find(view.input), out = rows.made.find(view.output);
      if (in == rows.made.end() || out == rows.made.end() || in->second.leaves || out->second.leaves) continue;
      if (held_.at(view.output).version != 1 || rows.root.contains(view.input)) continue;
      const std::size_t o = at(std::find(op.outputs.begin(), op.outputs.end(), view.output) - op.outputs.begin());
      const std::size_t i = at(std::find(op.inputs.begin(), op.inputs.end(), view.input) - op.inputs.begin());
      const HeldRows &read = piece.reads[i], &written = piece.writes[o];
      const bool same = !read.whole && !written.whole && read.axes == written.axes && read.rows == written.rows &&
                        read.base == written.base && held_.at(view.input).capacity == read.rows.size();
      if (same) part.inplace.push_back({part.outputs[o], read.tensor, 0});
    }
  }

  std::string numbered(const std::string& name, std::size_t r) const {
    return name + "/" + std::to_string(number_[r]) + "of" + std::to_string(of_[r]);
  }

  static std::string new_name(std::unordered_set<std::string>& taken, std::string name) {
    while (!taken.insert(name).second) name += "'";
    return name;
  }

  Index add_tensor(Tensor tensor, Index of) {
    parts_.tensors.push_back(std::move(tensor));
    tensor_of_.push_back(of);
    return static_cast<Index>(parts_.tensors.size()) - 1;
  }

  void add(Op op, Piece piece) {
    if (piece.does != Piece::Does::keep && piece.does != Piece::Does::gather &&
        (piece.does != Piece::Does::early || piece.statistics != kNone))
      last_[at(piece.of)] = static_cast<Index>(parts_.ops.size());
    parts_.ops.push_back(std::move(op));
    pieces_.push_back(std::move(piece));
  }

  const Graph& graph_;
  const StorageOptions& storage_;
  std::vector<RegionRows> rows_;
  std::vector<Index> region_of_;  // per op; kNone for those that run whole
  std::vector<Index> tensor_;     // per tensor that stays: in the split graph
  std::vector<Index> last_;       // per op: the last op of the split graph that does a part of it; kNone: none yet
  bool named_;
  std::unordered_set<std::string> names_, op_names_;
  GraphParts parts_;
  std::vector<Piece> pieces_;
  std::vector<Index> tensor_of_;
  Bytes kept_bytes_ = 0;
  std::map<Index, std::vector<BlockOfRows>> blocks_;  // by tensor that stays in blocks: those that there are, ascending
  // Of the region that is being written:
  std::unordered_map<Index, Index> over_;  // by tensor that leaves it: the tensor over which it is written
  std::unordered_map<Index, Index> written_over_by_;
  std::unordered_map<Index, Held> held_;   // by tensor that it makes by rows
  std::unordered_map<Index, Index> sums_;  // by tensor: its newest version
  std::vector<Index> statistics_;          // per op: their newest version; kNone: none yet
  std::vector<Index> number_, of_;         // per op: pieces until now, and in all
  const Pass* pass_ = nullptr;             // that is being written
};

}  // namespace

const Loop& loop_of(const Graph& graph, const RegionOp& one) {
  static const Loop none;
  return one.loop == kNone ? none : graph.op(one.op).loops[at(one.loop)];
}

SplitGraph split(const Graph& graph, std::span<const Region> regions, const StorageOptions& storage) {
  return Splitter(graph, regions, storage, true).run();
}

SplitGraph split_unnamed(const Graph& graph, std::span<const Region> regions, const StorageOptions& storage) {
  return Splitter(graph, regions, storage, false).run();
}

}  // namespace memplan
