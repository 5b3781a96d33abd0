#include "memplan/rematerialisation.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <unordered_map>

namespace memplan {

namespace {

constexpr std::array<std::string_view, 16> kByChance{
    "rand",           "bernoulli",     "multinomial",     "normal",    "uniform",     "dropout",
    "native_dropout", "rrelu",         "feature_dropout", "poisson",   "exponential", "random",
    "geometric",      "alpha_dropout", "cauchy",          "log_normal"};  // beginnings of names in torch
constexpr std::array<std::string_view, 7> kByChanceInOnnx{
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"};

std::vector<std::string_view> words_of(std::string_view type) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t dot = type.find('.');
    words.push_back(type.substr(0, dot));
    if (dot == std::string_view::npos) return words;
    type = type.substr(dot + 1);
  }
}

// "aten.relu_.default": a type of torch that changes its input.
bool changes(std::string_view word) { return word.ends_with('_') && !word.starts_with("__"); }

bool draws(std::string_view type, std::string_view name) {
  if (std::find(kByChanceInOnnx.begin(), kByChanceInOnnx.end(), type) != kByChanceInOnnx.end()) return true;
  if (type == name) return false;
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(kByChance.begin(), kByChance.end(),
                     [&](std::string_view beginning) { return small.starts_with(beginning); });
}

Again again_of_type(std::string_view type, bool has_views) {
  const std::size_t scope = type.rfind("::");
  const std::vector<std::string_view> words = words_of(scope == std::string_view::npos ? type : type.substr(scope + 2));
  const bool in_torch = (words[0] == "aten" || words[0] == "prims") && words.size() > 1;
  if (draws(type, in_torch ? words[1] : words.back())) return Again::never;
  // A function or module of torch, whose name does not say it, may change what its output is a view of.
  const bool may_change = has_views && type.starts_with("torch.") && !type.starts_with("torch.Tensor.");
  return may_change || std::any_of(words.begin(), words.end(), changes) ? Again::changes : Again::same;
}

// Bytes that ops read and write. A view touches none, nor does an op without outputs that changes nothing.
class Touched {
 public:
  explicit Touched(const Graph& graph) : graph_(graph), seen_(graph.tensors().size(), kNone) {}

  double operator()(Index k) {
    const Op& op = graph_.op(k);
    for (const View& view : op.aliases) seen_[at(view.output)] = k;
    double bytes = 0;
    bool fresh = false;
    for (const Index t : op.outputs) {
      fresh |= seen_[at(t)] != k;
      bytes += add(t, k);
    }
    if (!fresh && op.workspace == 0 && !changes_by_name(op.type)) return 0;
    for (const Index t : op.inputs) bytes += add(t, k);
    return bytes;
  }

 private:
  double add(Index t, Index k) {
    if (seen_[at(t)] == k) return 0;
    seen_[at(t)] = k;
    return static_cast<double>(graph_.tensor(t).bytes);
  }

  static bool changes_by_name(std::string_view type) {
    const std::vector<std::string_view> words = words_of(type);
    return std::any_of(words.begin(), words.end(), [](std::string_view word) { return word.ends_with('_'); });
  }

  const Graph& graph_;
  std::vector<Index> seen_;  // per tensor: the last op that counts it
};

}  // namespace

std::vector<double> costs_of(const Graph& graph, CountedBy by) {
  Touched touched(graph);
  std::vector<double> costs;
  for (Index k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(k);
    if (by == CountedBy::graph && op.cost) {
      costs.push_back(*op.cost);
    } else {
      costs.push_back(touched(k) + (by == CountedBy::bytes ? 0 : op.flops.value_or(0)));
    }
  }
  return costs;
}

std::vector<Again> again_of(const Graph& graph) {
  std::unordered_map<std::string_view, Again> known[2];
  std::vector<Again> again;
  for (const Op& op : graph.ops()) {
    const bool has_views = !op.aliases.empty();
    const auto [entry, is_new] = known[has_views].try_emplace(op.type, Again::never);
    if (is_new) entry->second = again_of_type(op.type, has_views);
    again.push_back(op.recompute ? entry->second : Again::never);
  }
  return again;
}

std::vector<OpFacts> facts_of(const Graph& graph, CountedBy by) {
  const std::vector<double> costs = costs_of(graph, by);
  const std::vector<Again> again = again_of(graph);
  std::vector<OpFacts> facts;
  for (std::size_t k = 0; k < costs.size(); ++k) facts.push_back({costs[k], again[k]});
  return facts;
}

}  // namespace memplan
