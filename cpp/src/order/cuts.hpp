// Cuts: the least that is alive after a set of ops, by a minimum cut.
//
//     maker ─bytes▶ item ─∞▶ users      item that is kept ─∞▶ sink      op ─∞▶ what it waits for
//     source ─∞▶ ops that have to be in the set      ops that may not be in it ─∞▶ sink
//
// A cut of finite capacity is a set S of ops with all that they wait for: what it cuts is what is alive after S. So the
// least cut is the least that may be alive. Only what is open has nodes: an op that is not yet known to be in S or out
// of it, and the items that such an op makes or uses up.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "base/max_flow.hpp"
#include "order/contents_model.hpp"

namespace memplan {

struct Cut {
  Bytes alive = 0;           // bytes after S
  std::vector<bool> in_set;  // per op, whether it is in S: the smallest S of so few bytes
};

// A flow: why so much is alive. Each item gives its bytes to ops that use it, as long as they have not run.
struct CutFlow {
  struct Held {
    Index item, user;  // kNone: the caller
    Bytes bytes;
  };
  struct Passed {
    Index op, before;  // what the op waits for
    Bytes bytes;
  };
  Bytes bytes = 0;
  std::vector<Held> held;
  std::vector<Passed> passed;
};

class Cuts {
 public:
  Cuts(const ContentsModel& model, const Deadline& deadline);  // which outlive it

  // The least that is alive before an op; no value if it takes more work than is left, in edges looked at. The deadline
  // throws.
  std::optional<Cut> before(Index op, std::int64_t& work_left);

  // The same with all of `in`, and none of `out`, in S.
  std::optional<Cut> before(Index op, std::span<const Index> in, std::span<const Index> out, std::int64_t& work_left);

  // The flow of the last cut. If the work was not enough, the flow found so far: no S has less alive.
  CutFlow flow() const;
  std::span<const CutFlow::Held> always() const { return always_; }
  Bytes proven() const { return always_alive_ + flow_.flow(); }  // its bytes

  // Per op, by the flow of the last cut, the bytes that it gives less the bytes that it gets.
  std::vector<Bytes> gives() const;

  // Whether some set of ops has all of `in`, and what the op waits for, and neither the op nor any of `out`.
  bool exists() const { return exists_; }

 private:
  enum class Side : std::uint8_t { open, in, out, after };  // out: after is the op, and what waits for it
  struct Open {
    Index item, user, edge;
  };

  bool is_out(Index op) const { return side_[at(op)] == Side::out || side_[at(op)] == Side::after; }
  void spread(Index op, Side side);
  void build();
  void build(Index item);

  const ContentsModel& model_;
  MaxFlow flow_;
  bool exists_ = true;
  Bytes always_alive_ = 0;
  std::vector<Side> side_;             // per op
  std::vector<Index> open_;            // ops
  std::vector<Index> node_of_;         // per open op
  std::vector<CutFlow::Held> always_;  // what is alive after every S
  std::vector<Open> uses_;             // the edges from items, ...
  std::vector<Open> waits_;            // ... and from ops to what they wait for
  std::vector<Index> queue_;
};

}  // namespace memplan
