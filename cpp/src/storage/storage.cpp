#include "memplan/storage.hpp"

#include "memplan/errors.hpp"
#include "storage/forming.hpp"
#include "storage/sharing.hpp"

namespace memplan {

std::string_view to_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::inplace: return "inplace";
    case Sharing::slice: return "slice";
    case Sharing::concat: return "concat";
  }
  return "unknown";
}

Storages storages_of(const Graph& graph, const HappensBefore& order, const StorageOptions& options,
                     const Wanted& wanted) {
  if (options.alignment < 1) throw ProblemError("alignment must be >= 1, got " + std::to_string(options.alignment));
  FormingStorages forming(graph, order);
  const Bytes unshared = forming.placed(options.place);
  std::vector<Shared> shared = share(forming, graph, order, options, wanted);
  Storages storages = forming.result();
  storages.shared = std::move(shared);
  storages.unshared = unshared;
  return storages;
}

}  // namespace memplan
