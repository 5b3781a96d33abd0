// min_cost_flow: shared objects from a matching. A buffer opens an object of its own, at the cost of its bytes. Or it
// takes over the object of a buffer that has died, at the cost of the bytes by which it is larger. Each buffer hands
// its object over at most once. The cheapest choice is a flow of minimum cost:
//
//     source ──0──▶ buffers that die ──max(0, size(j) - size(i))──▶ buffers that are born ──0──▶ sink
//        └───────────────────────── size(j) ──────────────────────────────▲
//
// An object is as large as its largest buffer. If its buffers shrink and grow again, the cost counts some bytes twice,
// so the least cost is not always the fewest bytes.
//
// Buffers are matched in the order of their birth, by the Hungarian method: each by the cheapest path that undoes and
// makes hand-overs, with prices that keep all costs >= 0. Of equal paths, one to a free object comes before one to a
// new object. Then the tightest object counts, then the latest born.
//
// Complexity: O(n^2 w) for w hand-overs looked at per birth, w <= n; dense, so at most 2^12 buffers with bytes.
// Guarantee: least cost as above; none on bytes.
// Source: TFLite, the GPU delegate's MinCostFlowAssignment.
#include <algorithm>
#include <string>
#include <vector>

#include "base/sorting.hpp"
#include "memplan/errors.hpp"
#include "placing/shared_objects.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostBuffers = std::size_t{1} << 12;

class Matching {
 public:
  using Row = std::size_t;     // a birth, by first
  using Column = std::size_t;  // a death, by last
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

  Matching(const Problem& problem, const Deadline& deadline) : problem_(problem), deadline_(deadline) {
    births_ = by_birth(problem);
    if (births_.size() > kMostBuffers)
      throw UnsupportedError("planner 'min_cost_flow' takes at most " + std::to_string(kMostBuffers) +
                             " buffers with bytes, this problem has " + std::to_string(births_.size()));
    deaths_ = sorted_by(problem.last(), births_);
    const std::size_t n = births_.size();
    columns_of_.resize(n);
    for (Row row = 0, dead = 0; row < n; ++row) {
      while (dead < n && problem.last(deaths_[dead]) <= problem.first(births_[row])) ++dead;
      columns_of_[row] = dead;
    }
    row_price_.assign(n, 0);
    column_price_.assign(n, 0);
    given_to_.assign(n, kNobody);
    taken_from_.assign(n, kNobody);
    distance_.resize(n);
    from_.resize(n);
    seen_.resize(n);
  }

  void solve() {
    for (Row row = 0; row < births_.size(); ++row) match(row);
  }

  // The objects, in the order of their first buffers' births.
  SharedObjects objects() const {
    SharedObjects objects(problem_);
    std::vector<Index> object_of(problem_.size().size());
    for (Row row = 0; row < births_.size(); ++row) {
      const Column column = taken_from_[row];
      const Index object = column == kNobody ? objects.open() : object_of[at(deaths_[column])];
      objects.put(object, births_[row]);
      object_of[at(births_[row])] = object;
    }
    return objects;
  }

 private:
  struct Visited {
    Row row;
    Bytes distance;
  };

  Bytes size_of(Row row) const { return problem_.size(births_[row]); }
  Bytes held_by(Column column) const { return problem_.size(deaths_[column]); }
  Bytes cost(Row row, Column column) const { return std::max(Bytes{0}, size_of(row) - held_by(column)); }

  // Dijkstra from one birth over the deaths before it; ends at a free object, or where somebody opens a new one.
  // All sums stay below that of the sizes: prices of different buffers, each at most its size.
  void match(Row start) {
    const Column columns = columns_of_[start];
    std::fill_n(distance_.begin(), columns, kMaxBytes);
    std::fill_n(seen_.begin(), columns, false);
    visited_.assign(1, {start, 0});
    Row opener = start;
    Bytes opening = size_of(start) - row_price_[start];
    Column found = kNobody;
    while (true) {
      deadline_.tick(1 + columns / 4);
      relax(visited_.back());
      const Column next = nearest(columns);
      if (next == kNobody || distance_[next] > opening) break;
      seen_[next] = true;
      if (given_to_[next] == kNobody) {
        found = next;
        break;
      }
      const Row row = given_to_[next];
      visited_.push_back({row, distance_[next]});
      if (const Bytes price = distance_[next] + size_of(row) - row_price_[row]; price < opening) {
        opening = price;
        opener = row;
      }
    }
    adjust_prices(columns, found == kNobody ? opening : distance_[found]);
    found == kNobody ? open(opener) : hand_over(found);
  }

  void relax(const Visited& visited) {
    for (Column column = 0; column < columns_of_[visited.row]; ++column) {
      if (seen_[column]) continue;
      const Bytes distance =
          visited.distance + cost(visited.row, column) - row_price_[visited.row] - column_price_[column];
      if (distance >= distance_[column]) continue;
      distance_[column] = distance;
      from_[column] = visited.row;
    }
  }

  Column nearest(Column columns) const {
    Column best = kNobody;
    for (Column column = 0; column < columns; ++column)
      if (!seen_[column] && distance_[column] != kMaxBytes && (best == kNobody || is_nearer(column, best)))
        best = column;
    return best;
  }

  bool is_nearer(Column a, Column b) const {
    if (distance_[a] != distance_[b]) return distance_[a] < distance_[b];
    const bool a_free = given_to_[a] == kNobody;
    if (a_free != (given_to_[b] == kNobody)) return a_free;
    if (held_by(a) != held_by(b)) return held_by(a) < held_by(b);
    return deaths_[a] > deaths_[b];
  }

  void adjust_prices(Column columns, Bytes distance) {
    for (const Visited& visited : visited_) row_price_[visited.row] += distance - visited.distance;
    for (Column column = 0; column < columns; ++column)
      if (seen_[column]) column_price_[column] -= distance - distance_[column];
  }

  // Gives the object to whom the path came from, whose former object goes on in the same way.
  void hand_over(Column column) {
    while (column != kNobody) {
      const Row row = from_[column];
      given_to_[column] = row;
      std::swap(taken_from_[row], column);
    }
  }

  void open(Row row) {
    const Column column = taken_from_[row];
    taken_from_[row] = kNobody;
    hand_over(column);
  }

  const Problem& problem_;
  const Deadline& deadline_;
  std::vector<Index> births_, deaths_;
  std::vector<Column> columns_of_;  // per birth, how many have died by then
  std::vector<Bytes> row_price_, column_price_;
  std::vector<Row> given_to_;       // per death, who takes the object over
  std::vector<Column> taken_from_;  // per birth, whose object it takes over
  // Of the search in progress: per death the shortest distance so far, the birth it is from, and whether it is final.
  std::vector<Bytes> distance_;
  std::vector<Row> from_;
  std::vector<char> seen_;
  std::vector<Visited> visited_;
};

}  // namespace

Placement min_cost_flow(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  Matching matching(problem, deadline);
  matching.solve();
  return matching.objects().end_to_end();
}

}  // namespace memplan
