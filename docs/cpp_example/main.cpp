#include <iostream>
#include <memplan/memplan.hpp>

int main() {
  // Three buffers: bytes, first step, step after the last. The first and the third are never alive together.
  const memplan::Problem problem({4096, 1024, 2048}, {0, 1, 2}, {2, 3, 4});
  const memplan::Plan plan = memplan::solve(problem);
  for (memplan::Bytes offset : plan.offsets) std::cout << offset << ' ';
  std::cout << "peak " << plan.peak << (plan.optimal ? " optimal\n" : "\n");
}
