// Graph: tensors, the ops that read and write these tensors, in execution order, and the outputs that the caller gets.
//
// A caller writes a GraphSpec, with names. A Graph has the same contents, validated and with indices. A Graph cannot
// change, so no later stage has to check it again. Op k runs at step k. If ops are on several streams, the ops of one
// stream run in their listed order. Ops of different streams wait for each other only by data and `after`.
//
//   x ──▶ conv1 ──▶ t1 ──▶ relu1 ──▶ y        tensors: x (input), w (weight), t1 (intermediate), y (output)
//         ▲                                   ops: conv1 (inputs x, w; outputs t1), relu1 (inputs t1; outputs y)
//         w
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memplan/branches.hpp"
#include "memplan/layout.hpp"
#include "memplan/loops.hpp"
#include "memplan/units.hpp"

namespace memplan {

enum class TensorKind : std::uint8_t { input, weight, intermediate, output, workspace };
inline constexpr int kTensorKinds = 5;

std::string_view to_string(TensorKind kind);

// The kind with this name. For other names, throws GraphError, which lists the kinds.
TensorKind tensor_kind(std::string_view name);

struct Tensor {
  std::string name;
  Bytes bytes = 0;
  TensorKind kind = TensorKind::intermediate;
  std::optional<std::vector<std::int64_t>> shape = std::nullopt;  // for people and loops; `bytes` may be more
  std::string dtype = {};
  bool permuted = false;  // its axes lie in memory in another order than in the shape

  bool operator==(const Tensor&) const = default;
};

// An output and an input of an op. One of the two lies inside the bytes of the other, `offset` bytes after the other
// begins.
template <class Ref>
struct BasicView {
  Ref output;
  Ref input;
  Bytes offset = 0;

  bool operator==(const BasicView&) const = default;
};

template <class Ref>
struct BasicOp {
  std::string name;
  std::string type;
  std::vector<Ref> inputs;
  std::vector<Ref> outputs;
  Bytes workspace = 0;                          // scratch bytes that live only while the op runs
  std::vector<BasicView<Ref>> aliases = {};     // output IS these bytes of input, unchanged
  std::vector<BasicView<Ref>> inplace = {};     // output MAY take these bytes of input, without an alias, if safe
  std::vector<BasicView<Ref>> overwrites = {};  // output MUST be written into these bytes of input
  int stream = 0;
  std::vector<BasicView<Ref>> slices = {};   // output MAY BE these bytes of input, unchanged, or a copy
  std::vector<BasicView<Ref>> concats = {};  // input MAY LIVE in these bytes of output, or is copied there
  std::vector<Ref> after = {};               // ops that must have run before, besides the ops that it reads from
  std::optional<double> cost = {};           // of running the op, in any unit; finite, >= 0
  bool recompute = true;    // it may run again: it draws no random numbers, and changes nothing but what it overwrites
  std::string branch = {};  // in which it runs (branches.hpp), such as "if1/then"; empty: in every run
  std::optional<double> flops = {};  // floating-point operations; finite, >= 0
  std::vector<Loop> loops = {};      // the op may run in pieces along any one of these
  std::vector<Index> ordered = {};   // of `loops`: run in ascending order, the outermost loop first
  bool reads_first = false;          // an iteration of `ordered` ends its reads before it writes
  std::string body = {};       // of a loop in which it runs, as "loop1", or "loop1/loop2"; no op runs between its ops
  bool pieces_copied = false;  // rows that lie scattered in memory are computed apart, and then copied there

  bool operator==(const BasicOp&) const = default;
};

using OpSpec = BasicOp<std::string>;  // refers to tensors and ops by name
using Op = BasicOp<Index>;            // refers to them by index
using View = BasicView<Index>;

struct GraphSpec {
  std::vector<Tensor> tensors;
  std::vector<OpSpec> ops;
  std::vector<std::string> outputs;
  Layout layout = {};
};

// The same by index.
struct GraphParts {
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Index> outputs;
};

class Graph {
 public:
  // Throws GraphError, naming op and tensor, for: empty or repeated names, unknown names, negative sizes, a tensor
  // written twice or never, a malformed branch or loop, a body that is left and entered again, an op that gets all its
  // inputs in no run, a read before the write, cycles, views outside their root, reads of bytes that an overwrite has
  // destroyed. An intermediate listed in `outputs` becomes an output.
  explicit Graph(GraphSpec spec);
  // Throws for the same faults. Indices must exist.
  explicit Graph(GraphParts parts);
  // Makes a graph of legal parts, without a check. Tensors and ops need no names, and find() finds none.
  static Graph trusted(GraphParts parts);
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Index>& outputs() const { return outputs_; }
  // Demands on the places of tensors and workspaces. Names are checked when buffers are made.
  const Layout& layout() const { return layout_; }

  Index tensor_count() const { return static_cast<Index>(tensors_.size()); }
  Index op_count() const { return static_cast<Index>(ops_.size()); }
  const Tensor& tensor(Index t) const { return tensors_[at(t)]; }
  const Op& op(Index k) const { return ops_[at(k)]; }
  // Whether tensors and ops have names.
  bool named() const { return tensors_.empty() || !index_of_.empty(); }
  // Per op; no value if all ops run in every run.
  const std::optional<Branches>& branches() const { return branches_; }

  std::optional<Index> find(std::string_view tensor_name) const;

  bool operator==(const Graph& other) const;

 private:
  Graph() = default;
  void index_tensors();
  void set_outputs(const std::vector<Index>& listed);
  void set_branches();

  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<Index> outputs_;
  Layout layout_;
  std::optional<Branches> branches_;
  std::unordered_map<std::string_view, Index> index_of_;  // keys point into tensors_, so no copies
};

// The number of rows of a tensor along axes of its shape, or the largest int64 if it is more.
std::int64_t rows_of(const Tensor& tensor, const Axes& axes);

// An op of a graph as a caller would write it down.
OpSpec spec_of(const Graph& graph, const Op& op);

// Whether ops run in bodies of loops.
bool has_bodies(const Graph& graph);

// The sum of the bytes of all tensors and workspaces. No load is larger. No value if the sum exceeds int64.
std::optional<Bytes> total_bytes(const Graph& graph);

}  // namespace memplan
