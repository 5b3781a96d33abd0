// Cuts: the fewest bytes alive after a set of ops, by a minimum cut.
//
//     maker ─bytes▶ item ─∞▶ users      item that is kept ─∞▶ sink      op ─∞▶ ops before it
//     source ─∞▶ ops that have to be in the set      ops that may not be in it ─∞▶ sink
//
// A cut of finite capacity is a set S of ops with all ops for which they wait. It cuts the items that are alive after
// S, so the minimum cut has the fewest bytes that may be alive. An op has a node only as long as it is not known
// whether S has it. An item has a node only if such an op makes it or uses it last.
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

// A flow: the proof that so many bytes are alive. Each item sends its bytes to the ops that use it and have not run.
struct CutFlow {
  struct Held {
    Index item, user;  // kNone: the caller
    Bytes bytes;
  };
  struct Passed {
    Index op, before;  // `op` waits for `before`
    Bytes bytes;
  };
  Bytes bytes = 0;
  std::vector<Held> held;
  std::vector<Passed> passed;
};

class Cuts {
 public:
  Cuts(const ContentsModel& model, const Deadline& deadline);  // which outlive it

  // The fewest bytes alive before an op; no value if that takes more work than is left, in edges looked at. The
  // deadline throws.
  std::optional<Cut> before(Index op, std::int64_t& work_left);

  // The same with all of `in`, and none of `out`, in S.
  std::optional<Cut> before(Index op, std::span<const Index> in, std::span<const Index> out, std::int64_t& work_left);

  // The flow of the last cut. If the work was not enough, the flow found so far: no S has less alive.
  CutFlow flow() const;
  std::span<const CutFlow::Held> always() const { return always_; }
  Bytes proven() const { return always_alive_ + flow_.flow(); }  // its bytes

  // Per op, by the flow of the last cut, the bytes that it gives less the bytes that it gets.
  std::vector<Bytes> gives() const;

  // Whether some set of ops has all of `in` and all ops for which the op waits, but neither the op nor any of `out`.
  bool exists() const { return exists_; }

 private:
  enum class Side : std::uint8_t { open, in, out, after };  // after: the op, and ops that wait for it
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
