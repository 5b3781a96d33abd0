// Fitter: schedules of a graph within one capacity after another. Models that do not depend on the capacity are made
// once, when they are first asked for.
#pragma once

#include <optional>
#include <vector>

#include "fit/fit_model.hpp"
#include "memplan/fit.hpp"

namespace memplan {

// The options for the search: slices and parts of concatenations are copies, as they are unless sharing helps.
StorageOptions with_copies(StorageOptions storage);

Bytes load_in(const Graph& graph, const StorageOptions& storage);

// The work of the options; without a time limit, no more than a small graph needs.
std::int64_t work_for(const Graph& graph, const FitOptions& options);

class Fitter {
 public:
  // The graph, the facts and `storage` outlive it. `recompute`: ops may run again. `transfer`: the cost of moving a
  // byte; no value: nothing is moved. Throws GraphError for impossible facts, and UnsupportedError if ops are on
  // several streams.
  Fitter(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage, bool recompute,
         std::optional<double> transfer);

  // As fit() says. The options say the capacity, the work, the states and when to end.
  Fitted within(const FitOptions& options);

  // The model of the search: tensors are moved as a whole, slices are copies.
  const FitModel& searched();

 private:
  friend class WithinCapacity;

  Bytes given_load();
  const FitModel& bounding();   // each item is moved on its own: for bounds
  const FitModel& moving();     // tensors as a whole
  const FitModel& rerunning();  // as searched(), but nothing is moved

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
