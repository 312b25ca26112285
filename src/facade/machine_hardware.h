// The hardware description of the machine that the program runs on.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "roofline/hardware/hardware.h"

namespace quire {

struct MachineProbeOptions {
  std::string isa = "auto";
  int32_t num_threads = 0;  // 0: one per physical core
  bool quick = false;       // a tenth of a second instead of some seconds; lower by a few percent
  int32_t num_tries = 0;    // of which the best counts; 0: few when quick, else many
};

// Measures read bandwidth (memory and cache) and multiply-add peaks; shares and overheads are those
// of the generic CPU description.
Result<Hardware> probe_machine(const MachineProbeOptions& options);

// Where `quire roofline probe` keeps what it measured: below $XDG_CACHE_HOME or ~/.cache, one file
// per machine name and number of threads. Empty when neither variable is set.
std::string machine_hardware_path(int32_t num_threads);

// The description for `name`: a path of a JSON file, a known name, or "auto" for this machine: the
// kept file, else a quick probe.
Result<Hardware> resolve_hardware(const std::string& name, const MachineProbeOptions& machine);

}  // namespace quire
