// Stack trees against all orders, written out; the stack search against the exhaustive planner.
#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "check.hpp"
#include "memplan/plan.hpp"
#include "memplan/verify.hpp"
#include "planners/planners.hpp"
#include "search/stacks/stack_search.hpp"
#include "search/stacks/stack_tree.hpp"

using namespace memplan;

namespace {

using Order = std::vector<Index>;
using Orders = std::set<Order>;

std::mt19937_64 generator(23);

Index below(Index limit) { return static_cast<Index>(generator() % static_cast<std::uint64_t>(limit)); }

// All orders that a subtree stands for.
Orders orders_of(const StackTree& tree, Index node) {
  if (tree[at(node)].item >= 0) return {{tree[at(node)].item}};
  std::vector<Index> children;
  for (Index child = node + 1; child < node + tree[at(node)].nodes; child += tree[at(child)].nodes)
    children.push_back(child);
  std::vector<std::vector<Index>> arranged;
  if (tree[at(node)].item == StackNode::kEither) {
    arranged = {children, {children.rbegin(), children.rend()}};
  } else {
    std::sort(children.begin(), children.end());
    do arranged.push_back(children);
    while (std::next_permutation(children.begin(), children.end()));
  }
  Orders all;
  for (const std::vector<Index>& line : arranged) {
    Orders begun = {{}};
    for (Index child : line) {
      Orders longer;
      for (const Order& order : begun)
        for (const Order& more : orders_of(tree, child)) {
          Order joined = order;
          joined.insert(joined.end(), more.begin(), more.end());
          longer.insert(joined);
        }
      begun = longer;
    }
    all.insert(begun.begin(), begun.end());
  }
  return all;
}

Orders permutations(Order items) {
  Orders all;
  std::sort(items.begin(), items.end());
  do all.insert(items);
  while (std::next_permutation(items.begin(), items.end()));
  return all;
}

// Those in which `out` are neighbours, with `in` in any order in their place.
Orders exchanged(const Orders& orders, const Order& out, const Order& in) {
  Orders all;
  const auto goes = [&](Index item) { return std::find(out.begin(), out.end(), item) != out.end(); };
  for (const Order& order : orders) {
    const auto begin = std::find_if(order.begin(), order.end(), goes);
    const auto end = begin + static_cast<std::ptrdiff_t>(out.size());
    if (!std::all_of(begin, end, goes)) continue;
    for (const Order& middle : permutations(in)) {
      Order next(order.begin(), begin);
      next.insert(next.end(), middle.begin(), middle.end());
      next.insert(next.end(), end, order.end());
      all.insert(next);
    }
  }
  return all;
}

Order some_of(Order items, Index count) {
  std::shuffle(items.begin(), items.end(), generator);
  items.resize(at(count));
  return items;
}

// Exchanges until one is impossible: the tree stands for the orders that are left, and each is undone to one before.
void exchanges_keep_all_orders() {
  constexpr Index kMost = 6;
  Order items;
  for (Index item = 0; item < 2 + below(kMost - 1); ++item) items.push_back(item);
  StackTree tree = any_order(items);
  Orders orders = permutations(items);
  StackExchange exchange(1000);
  for (Index next = 100; next < 900; next += 10) {
    const Order now = order_of(tree);
    const Order out = some_of(now, 1 + below(std::min<Index>(3, static_cast<Index>(now.size()))));
    Order in;
    const Index room = kMost - static_cast<Index>(now.size() - out.size());
    for (Index k = 0; k < 1 + below(std::min<Index>(3, room)); ++k) in.push_back(next + k);
    const Orders before = orders;
    const StackTree was = tree;
    Exchange done;
    const Orders after = exchanged(orders, out, in);
    const bool possible = exchange.exchange(tree, out, in, done);
    CHECK(possible == !after.empty());
    if (!possible) {
      CHECK(order_of(tree) == order_of(was) && orders_of(tree, 0) == before);
      continue;
    }
    orders = orders_of(tree, 0);
    CHECK(orders == after);
    for (Order order : orders) {
      done.undo(order);
      CHECK(before.contains(order));
    }
  }
}

// Sections without a free byte: some of what is alive dies, neighbours or, if it may not have a plan, any, and as many
// bytes are born, in other pieces.
Problem full_problem(bool solvable) {
  constexpr std::size_t kMost = 20;
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  std::vector<std::size_t> stack;
  const auto add = [&](Bytes bytes, Step step, std::size_t place) {
    stack.insert(stack.begin() + static_cast<std::ptrdiff_t>(place), size.size());
    size.push_back(bytes);
    first.push_back(step);
    last.push_back(0);
  };
  for (Index k = 0; k < 5; ++k) add(5 + below(40), 0, at(k));
  Step step = 1;
  for (; size.size() < kMost; ++step) {
    if (!solvable) std::shuffle(stack.begin(), stack.end(), generator);
    const auto deaths = static_cast<Index>(std::min<std::size_t>(stack.size(), at(2 + below(2))));
    const std::size_t place = at(below(static_cast<Index>(stack.size()) - deaths + 1));
    Bytes freed = 0;
    for (Index k = 0; k < deaths; ++k) {
      last[stack[place]] = step;
      freed += size[stack[place]];
      stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(place));
    }
    for (Index births = 1 + below(3); freed > 0; --births) {
      const Bytes bytes = births <= 1 ? freed : 1 + below(static_cast<Index>(freed));
      add(bytes, step, place);
      freed -= bytes;
    }
  }
  for (std::size_t x : stack) last[x] = step;
  return Problem(size, first, last);
}

void decides_full_problems() {
  constexpr Bytes kMost = 2;  // above the load: gaps in each section
  const Deadline never;
  const RunLimits limits{2'000, 1'000'000'000, never};
  int infeasible = 0, undecided = 0;
  for (int k = 0; k < 150; ++k) {
    const bool solvable = k % 4 == 0;
    const Problem problem = full_problem(solvable);
    const Sections sections(problem, Deadline());
    const Bytes load = sections.highest_load(), optimum = peak_of(problem, exhaustive(problem, {}).offsets);
    CHECK(optimum == load || !solvable);
    StackSearch search(sections, 1, 7, true);
    for (Bytes capacity = load; capacity <= load + kMost; ++capacity)
      for (std::int64_t number = 0; number < 3; ++number) {
        CHECK(StackSearch::serves(sections, capacity, 1));
        const Decision outcome = search.run(capacity, number, limits);
        undecided += outcome == Decision::undecided ? 1 : 0;
        infeasible += outcome == Decision::infeasible ? 1 : 0;
        CHECK(outcome != Decision::infeasible || optimum > capacity);
        if (outcome != Decision::found) continue;
        std::vector<Bytes> offsets(at(problem.count()), 0);
        for (Index x = 0; x < sections.items(); ++x) offsets[at(sections.buffer[at(x)])] = search.offsets()[at(x)];
        CHECK(verify(problem, offsets).empty());
        CHECK(peak_of(problem, offsets) <= capacity);
      }
  }
  CHECK(infeasible >= 30);
  CHECK(undecided <= 30);
}

// Too many to divide: then nothing is proven.
void many_at_once_prove_nothing() {
  constexpr Index kMany = 40;
  const std::vector<Bytes> size(kMany, 3);
  std::vector<Step> first, last;
  for (Index k = 0; k < kMany; ++k) {
    first.push_back(k < kMany / 2 ? 0 : 1);
    last.push_back(first.back() + 1);
  }
  const Problem problem(size, first, last);
  const Sections sections(problem, Deadline());
  StackSearch search(sections, 3, 0, true);
  const Deadline never;
  CHECK(search.run(60, 0, {1000, 1'000'000, never}) == Decision::found);
  CHECK(search.run(60, 0, {0, 1'000'000, never}) == Decision::undecided);
  CHECK(search.run(60, 0, {1000, 0, never}) == Decision::undecided);
}

void serves_where_few_bytes_are_free() {
  const auto serves = [](Bytes size, Bytes alignment, Bytes step) {
    const Problem problem({4, 4, size}, {0, 0, 1}, {1, 1, 2}, {alignment, 1, 1});
    const Sections sections(problem, Deadline());
    return StackSearch::serves(sections, 8, step);
  };
  CHECK(serves(8, 1, 1) && serves(8, 4, 4) && serves(4, 4, 4));
  CHECK(serves(5, 1, 1) && !serves(4, 1, 1));  // three gaps, four
  CHECK(!serves(8, 8, 4));                     // what lies on 4 bytes is not aligned
  CHECK(!StackSearch::serves(Sections(Problem({}, {}, {}), Deadline()), 0, 1));
  CHECK(!StackSearch::serves(Sections(Problem({9}, {0}, {1}), Deadline()), 8, 1));
}

}  // namespace

int main() {
  for (int round = 0; round < 150; ++round) exchanges_keep_all_orders();
  decides_full_problems();
  many_at_once_prove_nothing();
  serves_where_few_bytes_are_free();
  return check::finish();
}
