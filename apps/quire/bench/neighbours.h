// Neighbours are other programs that want the machine's cores: child processes that do nothing but
// run.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"

namespace quire::bench {

enum class NeighbourKind { kNone, kSteady, kOnOff };  // kOnOff: 10 ms busy, 10 ms asleep

class Neighbours {
 public:
  // Starts `count` processes with one busy thread each. They end with the object, or with this
  // process.
  static Result<Neighbours> start(NeighbourKind kind, int count);
  Neighbours(Neighbours&&) noexcept = default;
  Neighbours& operator=(Neighbours&&) = delete;
  ~Neighbours();

 private:
  Neighbours() = default;
  std::vector<pid_t> children_;
};

}  // namespace quire::bench
