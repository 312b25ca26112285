// A Stream says where kernels run. Kernel calls take a Stream and dispatch on its device, so
// callers name no backend.
#pragma once

#include <cstdint>

#include "base/threads/thread_team.h"

namespace quire {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct OpTable;  // kernels/api/ops.h

class Stream {
 public:
  virtual ~Stream() = default;
  virtual DeviceKind device() const = 0;
  // Returns the kernels of the stream's backend; null stands for those for CPUs.
  virtual const OpTable* ops() const { return nullptr; }
};

// Isa names the instruction sets that CPU kernels are written for, least first. kAvx2Core is AVX2
// as its first CPUs have it; kAvx2 adds AVX-VNNI where this CPU has it. kAvx512Core is AVX-512 as
// its first CPUs have it; kAvx512Vnni adds VNNI, as the next ones do; kAvx512 has what this CPU has
// of VNNI and BF16. kAmx is kAvx512 with tile products where they pay. kAmxEmulated runs the same
// tile kernels over a tile unit in software, bit for bit, and everything else portably. It is slow,
// for tests on CPUs without the unit, and is never chosen unasked.
enum class Isa : uint8_t {
  kPortable,
  kAvx2Core,
  kAvx2,
  kAvx512Core,
  kAvx512Vnni,
  kAvx512,
  kAmx,
  kAmxEmulated
};

// A HostStream runs each kernel at once on a thread team, and returns when it is done.
class HostStream final : public Stream {
 public:
  HostStream(ThreadTeam& team, Isa isa) : team_(team), isa_(isa) {}
  DeviceKind device() const override { return DeviceKind::kCpu; }
  ThreadTeam& team() const { return team_; }
  Isa isa() const { return isa_; }

 private:
  ThreadTeam& team_;
  Isa isa_;
};

}  // namespace quire
