// Neighbours are other programs that compete for the machine's cores: child processes that only
// keep a core busy.
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
