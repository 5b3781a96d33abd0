// Blocks, and the search through ideals, against all orders of small random graphs: each set of ops that may have run
// is looked at, and what it needs is counted anew.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "memplan/errors.hpp"
#include "memplan/happens_before.hpp"
#include "order/blocks.hpp"
#include "order/exact_search.hpp"
#include "order/ideals.hpp"
#include "order/lists.hpp"
#include "order/rules.hpp"
#include "random_graph.hpp"

using namespace memplan;

namespace {

constexpr Index kMostOps = 11;

Bytes most_of(const std::vector<Bytes>& needs) {
  return needs.empty() ? 0 : *std::max_element(needs.begin(), needs.end());
}

// The least load of all orders.
class AllOrders {
 public:
  explicit AllOrders(const ContentsModel& model) : model_(model) {}

  Bytes least() { return least_from(0); }

 private:
  Bytes least_from(unsigned set) {
    if (set + 1 == 1u << model_.op_count()) return 0;
    const auto [found, is_new] = known_.try_emplace(set, kMaxBytes);
    if (!is_new) return found->second;
    OrderState state(model_);
    for (Index op = 0; op < model_.op_count(); ++op)
      if (set >> op & 1) state.run(op);
    Bytes least = kMaxBytes;
    for (Index op = 0; op < model_.op_count(); ++op) {
      const auto& waits = model_.waits[at(op)];
      if ((set >> op & 1) || !std::all_of(waits.begin(), waits.end(), [&](Index w) { return set >> w & 1; })) continue;
      least = std::min(least, std::max(state.need(op), least_from(set | 1u << op)));
    }
    return known_[set] = least;
  }

  const ContentsModel& model_;
  std::map<unsigned, Bytes> known_;
};

bool is_legal(const ContentsModel& model, const std::vector<Index>& order) {
  std::vector<bool> ran(order.size());
  for (const Index op : order) {
    for (const Index before : model.waits[at(op)])
      if (!ran[at(before)]) return false;
    ran[at(op)] = true;
  }
  return static_cast<Index>(order.size()) == model.op_count();
}

// How many blocks of more than one op there were.
std::size_t check_one(const Graph& graph) {
  const ContentsModel model(graph, StorageOptions());
  const Deadline never;
  const Blocks blocks = blocks_of(model, never);
  const Bytes least = AllOrders(model).least();
  std::vector<Index> given(graph.ops().size());
  std::iota(given.begin(), given.end(), Index{0});
  std::vector<std::vector<Index>> orders = {given};
  for (const ListRule& rule : list_rules()) orders.push_back(list_order(model, rule, never));
  for (const std::vector<Index>& order : orders) {
    const std::vector<Index> together = joined(in_blocks(blocks, order));
    CHECK(is_legal(model, order) && is_legal(model, together));
    CHECK(most_of(needs_of(model, together)) <= most_of(needs_of(model, order)));
  }
  constexpr std::int64_t kWork = 10'000'000;
  std::int64_t work = 1'000 * kWork;
  const std::vector<std::vector<Index>> start = in_blocks(blocks, given);
  for (const bool backwards : {false, true}) {
    for (const Bytes enough : {Bytes{0}, least / 2, least}) {
      const BestWay way = best_way(model, OrderState(model), start, {kWork, enough, kMaxBytes, backwards}, never, work);
      CHECK(way.ops && is_legal(model, *way.ops));
      CHECK(way.ops && most_of(needs_of(model, *way.ops)) == least);
      CHECK(way.bound == std::max(enough, least));
    }
    const BestWay none = best_way(model, OrderState(model), start, {kWork, 0, least, backwards}, never, work);
    CHECK(!none.ops && none.bound == least);
  }
  const OnOrder nobody;
  OrderReporter tell(nobody);
  const ExactOrder exact = search_exactly(model, blocks, given, 0, kWork, never, tell);
  CHECK(is_legal(model, exact.ops) && most_of(needs_of(model, exact.ops)) == least && exact.bound == least);
  return static_cast<std::size_t>(
      std::count_if(blocks.ops.begin(), blocks.ops.end(), [](const auto& ops) { return ops.size() > 1; }));
}

// Chains of ops between inputs and one op that joins them: each tensor has one reader.
Graph chains(std::mt19937_64& generator) {
  const auto below = [&](std::uint64_t limit) { return static_cast<Bytes>(generator() % limit); };
  GraphSpec spec;
  OpSpec join;
  join.name = "join";
  for (int c = 0; c < 3; ++c) {
    std::string last = "x" + std::to_string(c);
    spec.tensors.push_back({last, 1, TensorKind::input});
    for (int k = static_cast<int>(below(3)); k >= 0; --k) {
      OpSpec op;
      op.name = "op" + std::to_string(c) + std::to_string(k);
      op.inputs = {last};
      op.outputs = {last = "t" + std::to_string(c) + std::to_string(k)};
      op.workspace = below(4) * below(10);
      spec.tensors.push_back({last, 1 + below(12)});
      spec.ops.push_back(op);
    }
    join.inputs.push_back(last);
  }
  spec.tensors.push_back({"y", 1});
  join.outputs = {"y"};
  spec.ops.push_back(join);
  spec.outputs = {"y"};
  return Graph(std::move(spec));
}

// How often a list, which does not see hills, is worse.
int check_chains(std::mt19937_64& generator, int graphs) {
  int worse = 0;
  for (int k = 0; k < graphs; ++k) {
    const Graph graph = chains(generator);
    const ContentsModel model(graph, StorageOptions());
    const Deadline never;
    const Bytes least = AllOrders(model).least();
    CHECK(most_of(needs_of(model, hill_valley(model, blocks_of(model, never), never))) == least);
    worse += most_of(needs_of(model, list_order(model, list_rules()[0], never))) > least ? 1 : 0;
  }
  return worse;
}

}  // namespace

int main(int count, char** values) {
  std::mt19937_64 generator(7);
  const int graphs = count > 1 ? std::stoi(values[1]) : 3000;
  std::size_t blocks = 0;
  for (int k = 0; k < graphs;) {
    GraphSpec spec = RandomGraph(generator).spec();
    if (static_cast<Index>(spec.ops.size()) > kMostOps || spec.ops.size() < 2) continue;
    for (auto& op : spec.ops) op.stream = 0;
    try {
      blocks += check_one(Graph(std::move(spec)));
    } catch (const GraphError&) {
    }
    ++k;
  }
  CHECK(check_chains(generator, graphs) > graphs / 20);
  CHECK(blocks > static_cast<std::size_t>(graphs) / 2);
  return check::finish();
}
