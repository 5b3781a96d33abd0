// Random small graphs with ordered loops: plans beside the least peak of all offsets, and replays beside memory that is
// simulated byte by byte. `random_overlap [graphs] [seed]`
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <string>

#include "check.hpp"
#include "memplan/errors.hpp"
#include "memplan/order_bound.hpp"
#include "memplan/sharing_bound.hpp"
#include "memplan/solve.hpp"

using namespace memplan;

namespace {

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

struct Case {
  GraphSpec spec;
  StorageOptions storage;
};

// Says of some ops that they copy parts: the first output is a concatenation of inputs and of what the op makes, or a
// slice of an input.
template <class TensorOf>
void add_copies(OpSpec& op, TensorOf&& tensor, Random& random) {
  const Bytes whole = tensor(op.outputs[0]).bytes;
  const std::int64_t kind = op.inplace.empty() ? pick(random, 0, 5) : 5;
  if (kind == 0 && whole <= tensor(op.inputs[0]).bytes)
    op.slices = {{op.outputs[0], op.inputs[0], pick(random, 0, tensor(op.inputs[0]).bytes - whole)}};
  Bytes begin = pick(random, 0, 1);
  for (std::size_t i = 0; i < op.inputs.size() && kind <= 2 && op.slices.empty(); ++i) {
    const Bytes bytes = tensor(op.inputs[i]).bytes;
    if (begin + bytes > whole || pick(random, 0, 3) == 0 || (i > 0 && op.inputs[i] == op.inputs[0])) continue;
    op.concats.push_back({op.outputs[0], op.inputs[i], begin});
    begin += bytes;
  }
}

Case random_case(Random& random) {
  Case one;
  GraphSpec& spec = one.spec;
  const auto add_tensor = [&](TensorKind kind) {
    const std::int64_t rows = pick(random, 1, 4), columns = pick(random, 1, 3), element = pick(random, 1, 2);
    const std::string name = "t" + std::to_string(spec.tensors.size());
    spec.tensors.push_back({name, rows * columns * element, kind, std::vector<std::int64_t>{rows, columns}});
    return name;
  };
  add_tensor(TensorKind::input);
  const std::int64_t ops = pick(random, 1, 4);
  for (std::int64_t k = 0; k < ops; ++k) {
    OpSpec op;
    op.name = "op" + std::to_string(k);
    const std::int64_t inputs = pick(random, 1, 2), known = static_cast<std::int64_t>(spec.tensors.size());
    for (std::int64_t i = 0; i < inputs; ++i)
      op.inputs.push_back(spec.tensors[at(i == 0 ? known - 1 : pick(random, 0, known - 1))].name);
    const std::int64_t outputs = pick(random, 0, 5) == 0 ? 2 : 1;
    for (std::int64_t o = 0; o < outputs; ++o) op.outputs.push_back(add_tensor(TensorKind::intermediate));
    op.workspace = pick(random, 0, 3) == 0 ? pick(random, 1, 3) : 0;
    const auto tensor = [&](const std::string& name) {
      return *std::find_if(spec.tensors.begin(), spec.tensors.end(), [&](const Tensor& t) { return t.name == name; });
    };
    for (Index axis = 0; axis < 2; ++axis) {
      Loop loop;
      for (Index o = 0; o < outputs; ++o) {
        if (pick(random, 0, 9) == 0) {
          loop.sums.push_back(o);
          continue;
        }
        const std::int64_t step = pick(random, 1, 2), rows = (*tensor(op.outputs[at(o)]).shape)[at(axis)];
        loop.writes.push_back({o, {axis, axis}, step});
        loop.extent = std::max(loop.extent, (rows + step - 1) / step);
      }
      loop.extent = std::max<std::int64_t>(loop.extent, 1) + (pick(random, 0, 9) == 0 ? 1 : 0);
      for (Index i = 0; i < inputs; ++i)
        if (pick(random, 0, 5) != 0)
          loop.reads.push_back({i,
                                {axis, axis},
                                pick(random, 1, 2),
                                pick(random, 1, 4),
                                pick(random, -1, 2),
                                pick(random, 0, 3) == 0 ? 2 : 1});
      op.loops.push_back(std::move(loop));
    }
    const std::vector<std::vector<Index>> orders = {{}, {0}, {0}, {1}, {0, 1}, {0, 1}, {1, 0}};
    op.ordered = orders[at(pick(random, 0, 6))];
    op.reads_first = !op.ordered.empty() && pick(random, 0, 2) == 0;
    for (const std::string& input : op.inputs)
      if (tensor(input).bytes >= tensor(op.outputs[0]).bytes && pick(random, 0, 2) == 0) {
        op.inplace = {{op.outputs[0], input, 0}};
        break;
      }
    add_copies(op, tensor, random);
    spec.ops.push_back(std::move(op));
  }
  spec.outputs = {spec.tensors.back().name};
  if (pick(random, 0, 3) == 0) spec.outputs.push_back(spec.tensors[at(pick(random, 0, ops - 1))].name);
  if (pick(random, 0, 1) == 0) one.storage.place.add(TensorKind::input);
  return one;
}

// What a kernel touches, found by looking at each iteration by itself.

using Bits = std::vector<bool>;  // per byte of a tensor

struct Iteration {
  std::vector<Bits> reads;   // per input
  std::vector<Bits> writes;  // per output
};

Bits rows_touched(const Tensor& tensor, const std::vector<std::pair<Index, RowRange>>& limits) {
  const auto& shape = *tensor.shape;
  const Bytes element = tensor.bytes / (shape[0] * shape[1]);
  Bits bits(at(tensor.bytes), false);
  for (std::int64_t row = 0; row < shape[0]; ++row)
    for (std::int64_t column = 0; column < shape[1]; ++column) {
      bool inside = true;
      for (const auto& [axis, range] : limits) {
        const std::int64_t place = axis == 0 ? row : column;
        inside = inside && range.begin <= place && place < range.end;
      }
      for (Bytes b = 0; b < element && inside; ++b) bits[at((row * shape[1] + column) * element + b)] = true;
    }
  return bits;
}

RowRange read_at(const LoopRead& read, std::int64_t i) {
  // rows that are read in part are read
  const double begin = static_cast<double>(i * read.step - read.before) / static_cast<double>(read.per);
  const double end = begin + static_cast<double>(read.window) / static_cast<double>(read.per);
  return {static_cast<std::int64_t>(std::floor(begin)), static_cast<std::int64_t>(std::ceil(end))};
}

std::vector<Iteration> iterations_of(const Graph& graph, const Op& op) {
  std::vector<std::vector<std::int64_t>> positions = {{}};
  for (const Index l : op.ordered) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& position : positions)
      for (std::int64_t i = 0; i < op.loops[at(l)].extent; ++i) {
        longer.push_back(position);
        longer.back().push_back(i);
      }
    positions = std::move(longer);
  }
  std::vector<Iteration> iterations;
  for (const auto& position : positions) {
    Iteration& now = iterations.emplace_back();
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      std::vector<std::pair<Index, RowRange>> limits;
      for (std::size_t l = 0; l < position.size(); ++l)
        for (const LoopRead& read : op.loops[at(op.ordered[l])].reads)
          if (at(read.input) == i) limits.emplace_back(read.axes.first, read_at(read, position[l]));
      now.reads.push_back(rows_touched(graph.tensor(op.inputs[i]), limits));
    }
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      std::vector<std::pair<Index, RowRange>> limits;
      for (std::size_t l = 0; l < position.size(); ++l)
        for (const LoopWrite& write : op.loops[at(op.ordered[l])].writes)
          if (at(write.output) == o)
            limits.emplace_back(write.axes.first, RowRange{position[l] * write.step, (position[l] + 1) * write.step});
      now.writes.push_back(rows_touched(graph.tensor(op.outputs[o]), limits));
    }
  }
  return iterations;
}

bool comes_in_turn(const Op& op, std::size_t output) {
  for (const Index l : op.ordered)
    if (std::none_of(op.loops[at(l)].writes.begin(), op.loops[at(l)].writes.end(),
                     [&](const LoopWrite& write) { return at(write.output) == output; }))
      return false;
  return true;
}

// Memory, byte by byte: who wrote each byte last. A tensor outside of the arena is not there. What is copied to where it
// lies already is not written.
class Memory {
 public:
  explicit Memory(const Graph& graph) : graph_(graph) {}

  // Whether the graph runs to its end at these addresses.
  bool runs(const Addresses& addresses) {
    bytes_.clear();
    shown_.clear();
    for (Index t = 0; t < graph_.tensor_count() + graph_.op_count(); ++t) {
      const Bytes bytes =
          t < graph_.tensor_count() ? graph_.tensor(t).bytes : graph_.op(t - graph_.tensor_count()).workspace;
      auto& shown = shown_.emplace_back();
      for (std::size_t b = 0; b < at(bytes); ++b) shown.emplace_back(t, b);
    }
    for (Index t = 0; t < graph_.tensor_count(); ++t)
      if (graph_.tensor(t).kind == TensorKind::input) write(addresses.tensor[at(t)], whole(t), t);
    for (Index k = 0; k < graph_.op_count(); ++k)
      if (!runs(k, addresses)) return false;
    for (const Index t : graph_.outputs())
      if (!holds(addresses.tensor[at(t)], whole(t), t)) return false;
    return true;
  }

 private:
  Bits whole(Index t) const { return Bits(at(graph_.tensor(t).bytes), true); }

  void write(Bytes begin, const Bits& bits, Index who) {
    if (begin == kNotPlaced) return;
    for (std::size_t b = 0; b < bits.size(); ++b) {
      if (at(begin) + b >= bytes_.size()) bytes_.resize(at(begin) + b + 1, {kNone, 0});
      if (bits[b] && shown_[at(who)][b].first == who) bytes_[at(begin) + b] = {who, b};
    }
  }
  bool holds(Bytes begin, const Bits& bits, Index who, Index or_who = kNone) const {
    if (begin == kNotPlaced) return true;
    for (std::size_t b = 0; b < bits.size(); ++b) {
      if (!bits[b]) continue;
      if (at(begin) + b >= bytes_.size()) return false;
      const auto& found = bytes_[at(begin) + b];
      if (found != shown_[at(who)][b] && !(or_who != kNone && found.first == or_who)) return false;
    }
    return true;
  }

  bool runs(Index k, const Addresses& addresses) {
    const Op& op = graph_.op(k);
    const Index scratch = graph_.tensor_count() + k;
    show_copies(op, addresses);
    const auto all_there = [&] {
      return std::all_of(op.inputs.begin(), op.inputs.end(),
                         [&](Index t) { return holds(addresses.tensor[at(t)], whole(t), t); });
    };
    if (!all_there()) return false;
    const Bits room(at(op.workspace), true);
    write(addresses.workspace[at(k)], room, scratch);
    if (!all_there()) return false;          // scratch is used from the beginning, beside all of the inputs
    const auto in_place_of = [&](Index t) {  // the output that may be written over it where it lies
      for (const View& view : op.inplace)
        if (view.input == t && addresses.tensor[at(view.output)] == addresses.tensor[at(t)]) return view.output;
      return kNone;
    };
    const auto there = [&](const Iteration& now) {
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const Index t = op.inputs[i];
        if (!holds(addresses.tensor[at(t)], now.reads[i], t, in_place_of(t))) return false;
      }
      return true;
    };
    for (std::size_t o = 0; o < op.outputs.size(); ++o)
      if (!comes_in_turn(op, o)) write(addresses.tensor[at(op.outputs[o])], whole(op.outputs[o]), op.outputs[o]);
    for (const Iteration& now : iterations_of(graph_, op)) {
      if (!there(now)) return false;
      for (std::size_t o = 0; o < op.outputs.size(); ++o)
        if (comes_in_turn(op, o)) write(addresses.tensor[at(op.outputs[o])], now.writes[o], op.outputs[o]);
      if (!op.reads_first && !there(now)) return false;
    }
    for (const Index t : op.outputs)
      if (!holds(addresses.tensor[at(t)], whole(t), t)) return false;
    return holds(addresses.workspace[at(k)], room, scratch);
  }

  void show_copies(const Op& op, const Addresses& addresses) {
    const auto lies_at = [&](Index inside, Index whole, Bytes offset) {
      const Bytes begin = addresses.tensor[at(whole)];
      return begin != kNotPlaced && addresses.tensor[at(inside)] == begin + offset;
    };
    for (const View& view : op.slices)
      if (lies_at(view.output, view.input, view.offset))
        for (std::size_t b = 0; b < shown_[at(view.output)].size(); ++b)
          shown_[at(view.output)][b] = shown_[at(view.input)][b + at(view.offset)];
    for (const View& part : op.concats)
      if (lies_at(part.input, part.output, part.offset))
        for (std::size_t b = 0; b < shown_[at(part.input)].size(); ++b)
          shown_[at(part.output)][b + at(part.offset)] = shown_[at(part.input)][b];
  }

  const Graph& graph_;
  std::vector<std::pair<Index, std::size_t>> bytes_;
  std::vector<std::vector<std::pair<Index, std::size_t>>> shown_;  // per tensor, then per scratch: whose bytes it shows
};

// The least peak of all offsets, byte by byte: of an input that dies, those that an iteration or a later one reads are
// needed; of an output, those that one has written.
class Least {
 public:
  Least(const Graph& graph, const Buffers& buffers) : graph_(graph) {
    for (const Index b : buffers.buffer_of_workspace) {
      workspace_of_.push_back(b == kNone ? kNone : static_cast<Index>(size_.size()));
      if (b != kNone) size_.push_back(buffers.problem.size(b));
    }
    for (Index t = 0; t < graph.tensor_count(); ++t) {
      const bool is_placed = buffers.buffer_of_tensor[at(t)] != kNone;
      tensor_of_.push_back(is_placed ? static_cast<Index>(size_.size()) : kNone);
      if (is_placed) size_.push_back(graph.tensor(t).bytes);
    }
    find_moments();
  }

  // That of the plan if none is lower; no value if there are too many offsets to look at.
  std::optional<Bytes> peak(Bytes of_plan) {
    best_ = of_plan;
    offsets_.assign(size_.size(), 0);
    place(0, 0);
    return looks_ < kMostLooks ? std::optional(best_) : std::nullopt;
  }

 private:
  struct Live {
    Index buffer;
    Bytes begin, end;
  };

  static void unite(Bits& bits, const Bits& more) {
    for (std::size_t b = 0; b < bits.size(); ++b) bits[b] = bits[b] || more[b];
  }

  static void add_runs(Index buffer, const Bits& bits, std::vector<Live>& live) {
    for (std::size_t begin = 0, end = 0; begin < bits.size(); begin = end + 1) {
      for (end = begin; end < bits.size() && bits[end];) ++end;
      if (begin < end) live.push_back({buffer, static_cast<Bytes>(begin), static_cast<Bytes>(end)});
    }
  }

  void find_moments() {
    std::vector<Index> last(graph_.tensors().size(), -1), first(graph_.tensors().size(), 0);
    for (Index k = 0; k < graph_.op_count(); ++k) {
      for (const Index t : graph_.op(k).inputs) last[at(t)] = k;
      for (const Index t : graph_.op(k).outputs) first[at(t)] = last[at(t)] = k;
    }
    for (const Index t : graph_.outputs()) last[at(t)] = graph_.op_count();
    for (Index k = 0; k < graph_.op_count(); ++k) {
      const Op& op = graph_.op(k);
      std::vector<Live> others;
      const auto walked = [&](Index t) {
        const bool is_output = std::find(op.outputs.begin(), op.outputs.end(), t) != op.outputs.end();
        const bool is_input = std::find(op.inputs.begin(), op.inputs.end(), t) != op.inputs.end();
        return !op.ordered.empty() && (is_output || (is_input && last[at(t)] == k));
      };
      for (Index t = 0; t < graph_.tensor_count(); ++t)
        if (tensor_of_[at(t)] != kNone && first[at(t)] <= k && k <= std::max<Index>(last[at(t)], 0) && !walked(t))
          others.push_back({tensor_of_[at(t)], 0, graph_.tensor(t).bytes});
      if (const Index b = workspace_of_[at(k)]; b != kNone) others.push_back({b, 0, op.workspace});
      std::vector<std::pair<Index, Index>> in_place;
      for (const View& view : op.inplace)
        if (last[at(view.input)] == k && graph_.tensor(view.input).kind != TensorKind::input &&
            tensor_of_[at(view.input)] != kNone && tensor_of_[at(view.output)] != kNone)
          in_place.emplace_back(tensor_of_[at(view.input)], tensor_of_[at(view.output)]);
      if (op.ordered.empty()) {
        moments_.push_back({others, in_place});
        continue;
      }
      const std::vector<Iteration> all = iterations_of(graph_, op);
      // When the op begins; before iteration `now` has written if it reads first, else while it runs; and at the end.
      for (std::size_t moment = 0; moment <= all.size() + 1; ++moment) {
        std::vector<Live> live = others;
        const bool begins = moment == 0;
        const std::size_t now = begins ? 0 : moment - 1;
        const std::size_t written_to = begins ? 0 : op.reads_first || now == all.size() ? now : now + 1;
        for (const Index t : op.inputs) {
          if (tensor_of_[at(t)] == kNone || last[at(t)] != k) continue;
          Bits needed(at(graph_.tensor(t).bytes), begins);
          for (std::size_t i = 0; i < op.inputs.size(); ++i)
            for (std::size_t later = now; later < all.size() && op.inputs[i] == t; ++later)
              unite(needed, all[later].reads[i]);
          add_runs(tensor_of_[at(t)], needed, live);
        }
        for (std::size_t o = 0; o < op.outputs.size(); ++o) {
          const Index t = op.outputs[o];
          if (tensor_of_[at(t)] == kNone) continue;
          Bits written(at(graph_.tensor(t).bytes), !(comes_in_turn(op, o) && now < all.size()));
          for (std::size_t before = 0; before < written_to; ++before) unite(written, all[before].writes[o]);
          add_runs(tensor_of_[at(t)], written, live);
        }
        moments_.push_back({std::move(live), in_place});
      }
    }
    std::vector<Live> kept;
    for (const Index t : graph_.outputs())
      if (tensor_of_[at(t)] != kNone) kept.push_back({tensor_of_[at(t)], 0, graph_.tensor(t).bytes});
    moments_.push_back({std::move(kept), {}});
    // Distances that two buffers may not have.
    const std::size_t n = size_.size();
    forbidden_.assign(n * n, {});
    for (const auto& [live, in_place] : moments_)
      for (const Live& a : live)
        for (const Live& b : live) {
          if (a.buffer == b.buffer || a.begin >= a.end || b.begin >= b.end) continue;
          auto& ranges = forbidden_[at(a.buffer) * n + at(b.buffer)];
          const Bytes from = a.begin - b.end + 1, to = a.end - b.begin - 1;
          const auto is_pair = [&](const auto& pair) {
            return pair == std::pair(a.buffer, b.buffer) || pair == std::pair(b.buffer, a.buffer);
          };
          if (std::ranges::any_of(in_place, is_pair)) {
            ranges.emplace_back(from, std::min<Bytes>(to, -1));
            ranges.emplace_back(std::max<Bytes>(from, 1), to);
          } else {
            ranges.emplace_back(from, to);
          }
        }
  }

  void place(std::size_t b, Bytes peak) {
    if (peak >= best_ || ++looks_ >= kMostLooks) return;
    if (b == size_.size()) {
      best_ = peak;
      return;
    }
    for (Bytes offset = 0; std::max(peak, offset + size_[b]) < best_; ++offset) {
      bool free = true;
      for (std::size_t a = 0; a < b && free; ++a)
        for (const auto& [from, to] : forbidden_[a * size_.size() + b])
          free = free && !(from <= offset - offsets_[a] && offset - offsets_[a] <= to);
      if (!free) continue;
      offsets_[b] = offset;
      place(b + 1, std::max(peak, offset + size_[b]));
    }
  }

  const Graph& graph_;
  std::vector<Bytes> size_;  // of workspaces and tensors
  std::vector<Index> tensor_of_;
  std::vector<Index> workspace_of_;                                                          // per op
  std::vector<std::pair<std::vector<Live>, std::vector<std::pair<Index, Index>>>> moments_;  // and who may be in place
  std::vector<std::vector<std::pair<Bytes, Bytes>>> forbidden_;                              // of b's offset less a's
  std::vector<Bytes> offsets_;
  Bytes best_ = 0;
  static constexpr int kMostLooks = 200'000;
  int looks_ = 0;
};

std::string described(const Graph& graph, const GraphPlan* found = nullptr) {
  std::string text;
  const auto tensor = [&](Index t) {
    const Tensor& of = graph.tensor(t);
    const Index b = found == nullptr ? kNone : found->buffers.buffer_of_tensor[at(t)];
    return " " + of.name + "[" + std::to_string((*of.shape)[0]) + "," + std::to_string((*of.shape)[1]) + "]x" +
           std::to_string(of.bytes) + (b == kNone ? "" : "@" + std::to_string(found->plan.offsets[at(b)]));
  };
  for (const Op& op : graph.ops()) {
    text += op.name + ":";
    for (const Index t : op.inputs) text += tensor(t);
    text += " ->";
    for (const Index t : op.outputs) text += tensor(t);
    text += ", workspace " + std::to_string(op.workspace) + ", ordered";
    for (const Index l : op.ordered) text += " " + std::to_string(l);
    text += op.reads_first ? ", reads first" : "";
    for (const Loop& loop : op.loops) {
      text += "\n  loop of " + std::to_string(loop.extent) + ":";
      for (const LoopRead& r : loop.reads)
        text += " reads " + std::to_string(r.input) + " (step " + std::to_string(r.step) + ", window " +
                std::to_string(r.window) + ", before " + std::to_string(r.before) + ", per " + std::to_string(r.per) +
                ")";
      for (const LoopWrite& w : loop.writes)
        text += " writes " + std::to_string(w.output) + " (step " + std::to_string(w.step) + ")";
      for (const Index o : loop.sums) text += " adds to " + std::to_string(o);
    }
    text += "\n";
  }
  for (const Index t : graph.outputs()) text += "output" + tensor(t) + "\n";
  return text;
}

struct Counts {
  int searched = 0, overlapping = 0, proven = 0, lower = 0, replays = 0, faults = 0;
  int copied = 0;  // that overlap, and hold something that is not copied
};

void look(Random& random, Counts& counts) {
  Case one = random_case(random);
  const Graph graph(one.spec);
  GraphSpec plain = one.spec;
  for (OpSpec& op : plain.ops) op.ordered.clear(), op.reads_first = false;
  const auto solved = [&] {
    try {
      return solve(graph, "auto", one.storage);
    } catch (const InvalidPlanError&) {
      std::cerr << described(graph);
      throw;
    }
  };
  const GraphPlan found = solved();
  const GraphPlan apart = solve(Graph(plain), "auto", one.storage);
  Least least(graph, found.buffers);
  const std::optional<Bytes> searched = least.peak(found.plan.peak);
  const Bytes best = searched.value_or(found.plan.peak);
  CHECK(found.plan.lower_bound <= best);
  CHECK(!found.plan.optimal || best == found.plan.peak);
  CHECK(found.plan.peak <= apart.plan.peak);
  CHECK(sharing_bound(graph, one.storage) <= best);
  CHECK(order_bound(graph, one.storage).bytes <= best);
  if (check::failures > 0)
    std::cout << described(graph, &found) << "peak " << found.plan.peak << ", bound " << found.plan.lower_bound
              << ", least " << best << ", plain " << apart.plan.peak << "\n";
  counts.searched += searched ? 1 : 0;
  counts.overlapping += found.plan.peak < apart.plan.peak ? 1 : 0;
  counts.copied += found.plan.peak < apart.plan.peak &&
                   std::ranges::any_of(found.buffers.shared, [](const Shared& s) { return s.how != Sharing::inplace; });
  counts.proven += found.plan.optimal ? 1 : 0;
  counts.lower += best < found.plan.peak ? 1 : 0;

  Memory memory(graph);
  Addresses addresses = addresses_of(found.buffers, found.plan.offsets);
  for (Bytes& offset : addresses.tensor)  // tensors outside are not there
    if (addresses.region[at(&offset - addresses.tensor.data())] != kNone) offset = kNotPlaced;
  CHECK(memory.runs(addresses));
  for (int trial = 0; trial < 6; ++trial) {
    Addresses moved = addresses;
    for (Bytes& offset : moved.tensor)
      if (offset != kNotPlaced && pick(random, 0, 2) == 0) offset = std::max<Bytes>(0, offset + pick(random, -4, 4));
    const bool good = replay(graph, moved).empty();
    CHECK(good == memory.runs(moved));
    if (check::failures > 0) {
      std::cerr << described(graph, &found) << "moved:";
      for (const Bytes offset : moved.tensor) std::cerr << " " << offset;
      std::cerr << (good ? "; the replay finds nothing\n" : "; " + replay(graph, moved).front().message + "\n");
      return;
    }
    ++counts.replays;
    counts.faults += good ? 0 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int graphs = argc > 1 ? std::atoi(argv[1]) : 300;
  Random random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  Counts counts;
  for (int g = 0; g < graphs && check::failures == 0; ++g) look(random, counts);
  std::cout << graphs << " graphs: " << counts.searched << " searched through, " << counts.overlapping
            << " lower by overlap, " << counts.copied << " of them with copies saved, " << counts.proven << " proven, "
            << counts.lower << " above the least; " << counts.replays << " replays, " << counts.faults
            << " with faults\n";
  return check::finish();
}
