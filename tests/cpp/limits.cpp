// Limits: whether `keep` and prices on large problems end within a time limit.
//
//     limits [buffers = 100000] [seconds = 1] [more seconds that are forgiven = 0.2]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.hpp"
#include "memplan/keep.hpp"
#include "memplan/pricing.hpp"
#include "memplan/solve.hpp"

using namespace memplan;

namespace {

// Buffers that live some thirty steps each.
Problem large(Index count) {
  std::mt19937_64 generator(0);
  std::geometric_distribution<Step> life(1.0 / 30);
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  for (Index i = 0; i < count; ++i) {
    size.push_back(static_cast<Bytes>(1 + generator() % 99'999));
    first.push_back(static_cast<Step>(generator() % static_cast<std::uint64_t>(count)));
    last.push_back(first.back() + 1 + life(generator));
  }
  return Problem(std::move(size), std::move(first), std::move(last));
}

template <class Work>
void measure(const char* what, double most, Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  const auto found = work();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%s: %.2f s, %lld\n", what, seconds, static_cast<long long>(found));
  CHECK(seconds <= most);
}

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int k, double usual) { return count > k ? std::atof(arguments[k]) : usual; };
  const auto buffers = static_cast<Index>(argument(1, 100'000));
  const double limit = argument(2, 1), most = limit + argument(3, 0.2);
  const Problem problem = large(buffers);
  PlanOptions options;
  options.time_limit = limit;
  const std::vector<Bytes> earlier = solve(problem, "first_fit").offsets;
  measure("keep, moved", most, [&] { return solve_keeping(problem, earlier, options).moved.size(); });
  std::vector<PairPrice> prices;
  for (Index i = 0; i < buffers / 2; ++i) prices.push_back({i, (i + 50) % buffers, i % 7 + 1});
  measure("prices, price", most, [&] { return solve_priced(problem, prices, options).price; });
  return check::finish();
}
