// Random graphs with all that a graph may say: views, overwrites, in-place outputs, slices, concatenations, workspaces,
// streams and ops that wait for others. Valid but for overwrites that race with another stream.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "memplan/graph.hpp"

class RandomGraph {
 public:
  explicit RandomGraph(std::mt19937_64& generator) : RandomGraph(generator, 23, false) {}

  // So few ops on one stream, of so few bytes, that all orders can be tried.
  static RandomGraph tiny(std::mt19937_64& generator) { return RandomGraph(generator, 10, true); }

  memplan::GraphSpec spec() && { return std::move(spec_); }
  memplan::GraphSpec spec() const& { return spec_; }

 private:
  using Bytes = memplan::Bytes;
  using View = memplan::BasicView<std::string>;

  RandomGraph(std::mt19937_64& generator, int most_ops, bool tiny) : generator_(generator), tiny_(tiny) {
    const int inputs = 1 + below(3);
    for (int i = 0; i < inputs; ++i)
      add({"x" + std::to_string(i), small(), below(2) ? memplan::TensorKind::input : memplan::TensorKind::weight});
    streams_ = tiny_ || below(3) ? 1 : 1 + below(3);
    overwrites_ = below(3) == 0;
    const int ops = below(most_ops + 1);
    for (int k = 0; k < ops; ++k) add_op(k);
    for (std::size_t t = 0; t < spec_.tensors.size(); ++t)
      if (alive_[t] && below(6) == 0) spec_.outputs.push_back(spec_.tensors[t].name);
  }

  int below(int limit) { return static_cast<int>(generator_() % static_cast<std::uint64_t>(limit)); }
  Bytes small() {  // often equal, sometimes none
    if (tiny_) return below(6);
    return below(4) ? 16 * below(5) : below(50);
  }

  std::size_t add(memplan::Tensor tensor) {
    spec_.tensors.push_back(std::move(tensor));
    root_.push_back(spec_.tensors.size() - 1);
    offset_.push_back(0);
    alive_.push_back(true);
    return spec_.tensors.size() - 1;
  }

  Bytes bytes(std::size_t t) const { return spec_.tensors[t].bytes; }
  const std::string& name(std::size_t t) const { return spec_.tensors[t].name; }

  // Some tensor whose value is still there, more often one of the last.
  std::size_t pick() {
    for (;;) {
      const int count = static_cast<int>(spec_.tensors.size());
      const int t = below(2) ? below(count) : count - 1 - below(std::min(count, 4));
      if (alive_[memplan::at(t)]) return memplan::at(t);
    }
  }

  void add_op(int k) {
    memplan::OpSpec op;
    op.name = "op" + std::to_string(k);
    op.type = k % 2 ? "odd.kind" : "even.kind";
    op.stream = below(streams_);
    op.workspace = below(3) ? 0 : below(tiny_ ? 5 : 30);
    if (k > 0 && below(4) == 0) op.after.push_back("op" + std::to_string(below(k)));
    std::vector<std::size_t> inputs;
    const bool again = below(4) == 0;  // like the last concatenation, and more
    for (std::size_t t : concatenated_)
      if (again && alive_[t]) inputs.push_back(t);
    const int reads = 1 + below(3);
    for (int r = 0; r < reads; ++r) inputs.push_back(pick());
    for (std::size_t t : inputs) op.inputs.push_back(name(t));
    const int writes = 1 + below(2);
    for (int w = 0; w < writes; ++w) add_output(op, inputs, w);
    spec_.ops.push_back(std::move(op));
  }

  void add_output(memplan::OpSpec& op, const std::vector<std::size_t>& inputs, int w) {
    const std::string output = "t" + op.name.substr(2) + "_" + std::to_string(w);
    const std::size_t input = inputs[memplan::at(below(static_cast<int>(inputs.size())))];
    op.outputs.push_back(output);
    const int relation = inputs.size() > 3 ? 3 : below(8);
    if (relation == 0 && w == 0) {
      const std::size_t t = add_inside(op.aliases, output, input);
      root_[t] = root_[input];
      offset_[t] = offset_[input] + op.aliases.back().offset;
    } else if (relation == 1 && w == 0 && overwrites_) {
      const std::size_t t = add_inside(op.overwrites, output, input);
      destroy(root_[input], offset_[input] + op.overwrites.back().offset, bytes(t));
      root_[t] = root_[input];
      offset_[t] = offset_[input] + op.overwrites.back().offset;
    } else if (relation == 2) {
      add_inside(op.slices, output, input);
    } else if (relation == 3) {
      add_concat(op, output, inputs);
    } else {
      const bool as_large = below(2);
      add({output, as_large ? bytes(input) : small()});
      const Bytes size = spec_.tensors.back().bytes;
      for (std::size_t other : inputs)
        if (below(4)) {
          const Bytes offset = below(3) ? 0 : below(static_cast<int>(bytes(other)) + 1);
          if (offset == 0 || offset + size <= bytes(other)) op.inplace.push_back({output, name(other), offset});
        }
    }
  }

  std::size_t add_inside(std::vector<View>& views, const std::string& output, std::size_t input) {
    const bool all = below(2);
    const Bytes size = all ? bytes(input) : below(static_cast<int>(bytes(input)) + 1);
    const std::size_t t = add({output, size});
    views.push_back({output, name(input), below(static_cast<int>(bytes(input) - size) + 1)});
    return t;
  }

  // The inputs one after another, with a hole here and there.
  void add_concat(memplan::OpSpec& op, const std::string& output, const std::vector<std::size_t>& inputs) {
    Bytes end = 0;
    const bool dense = below(2);
    concatenated_ = inputs.size() < 8 ? inputs : std::vector<std::size_t>();
    for (std::size_t t : inputs) {
      if (!dense && below(4) == 0) end += below(9);
      op.concats.push_back({output, name(t), end});
      end += bytes(t);
    }
    add({output, end});
  }

  // Those bytes of a root hold something else from now on.
  void destroy(std::size_t root, Bytes begin, Bytes size) {
    for (std::size_t t = 0; t + 1 < spec_.tensors.size(); ++t)
      if (root_[t] == root && std::max(begin, offset_[t]) < std::min(begin + size, offset_[t] + bytes(t)))
        alive_[t] = false;
  }

  std::mt19937_64& generator_;
  bool tiny_;
  memplan::GraphSpec spec_;
  std::vector<std::size_t> root_;          // per tensor, by what must share bytes
  std::vector<Bytes> offset_;              // per tensor, in its root
  std::vector<bool> alive_;                // per tensor: whether its value is still there
  std::vector<std::size_t> concatenated_;  // last
  int streams_ = 1;
  bool overwrites_ = false;
};
