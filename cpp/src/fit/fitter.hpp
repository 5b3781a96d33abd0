// Fitter: schedules of a graph within one capacity after another. What does not depend on the capacity is made once,
// when it is first asked for.
#pragma once

#include <optional>
#include <vector>

#include "fit/fit_model.hpp"
#include "memplan/fit.hpp"

namespace memplan {

// What the search looks at: slices and parts of concatenations as copies, which they are unless sharing helps.
StorageOptions with_copies(StorageOptions storage);

Bytes load_in(const Graph& graph, const StorageOptions& storage);

// The work of the options; without a time limit, no more than a small graph needs.
std::int64_t work_for(const Graph& graph, const FitOptions& options);

class Fitter {
 public:
  // All arguments but the ways outlive it. The ways say whether ops run again, and what it costs to move a byte. Throws
  // GraphError for facts that cannot be, and UnsupportedError if ops are on several streams.
  Fitter(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage, bool recompute,
         std::optional<double> transfer);

  // As fit() says. The options say the capacity, the work, the states and when to end.
  Fitted within(const FitOptions& options);

  // What the search looks at: tensors are moved as a whole, slices are copies.
  const FitModel& searched();

 private:
  friend class WithinCapacity;

  Bytes given_load();
  const FitModel& bounding();   // each item is moved on its own: for bounds
  const FitModel& moving();     // tensors as a whole
  const FitModel& rerunning();  // what the search looks at, and nothing is moved

  const FitModel& made(std::optional<FitModel>& model, const StorageOptions& storage, const Ways& ways);

  const Graph& graph_;
  const std::vector<OpFacts>& facts_;
  const StorageOptions& storage_;
  const StorageOptions copies_;
  const bool recompute_;
  const std::optional<double> transfer_;
  std::optional<Bytes> given_load_;
  std::optional<FitModel> bounding_, moving_, searched_, rerunning_;
};

}  // namespace memplan
