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
  // Returns the kernels of the stream's backend. Null stands for the CPU kernels.
  virtual const OpTable* ops() const { return nullptr; }
};

// Isa names the instruction sets that CPU kernels are written for, least capable first. kAvx2Core
// is AVX2 without later extensions; kAvx2 adds AVX-VNNI where this CPU has it. kAvx512Core is
// AVX-512 as its first CPUs had it, kAvx512Vnni adds VNNI, as the next generation has it, and
// kAvx512 uses VNNI and BF16 where this CPU has them. kAmx is kAvx512 with tile products where they
// are faster. kAmxEmulated runs the same tile kernels on a tile unit in software, bit for bit, and
// everything else portably; it is slow, meant for tests on CPUs without the unit, and used only
// when requested by name.
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

// A HostStream runs each kernel at once on a thread team; the call returns when the kernel is done.
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
