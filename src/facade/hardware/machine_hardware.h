// Describes the machine that the program runs on, as hardware of the roofline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "roofline/hardware/hardware.h"

namespace quire {

// This known description is near enough to any CPU where nothing was measured.
inline constexpr const char* kGenericCpu = "cpu-avx512";

struct MachineProbeOptions {
  std::string isa = "auto";
  int32_t num_threads = 0;  // 0: one per physical core
  bool again = false;       // what is kept of an earlier probe does not count
  bool quick = false;       // a tenth of a second instead of some seconds; lower by a few percent
  int32_t num_tries = 0;    // of which the best counts; 0: few when quick, else many
};

// What provenance.device says of this machine: its host name and its processor.
std::string machine_device_name();

// Measures read bandwidth (memory and cache) and multiply-add peaks; shares and overheads are those
// of the generic CPU description.
Result<Hardware> probe_machine(const MachineProbeOptions& options);

// Returns where measurements of this host's `what` are kept, below $XDG_CACHE_HOME or ~/.cache, or
// an empty string when neither variable is set.
std::string hardware_path(const std::string& what);

// Where measurements of this machine are kept: hardware_path() of the number of threads and the
// instruction set that was asked for.
std::string machine_hardware_path(const MachineProbeOptions& machine);

// Writes `path`, and its folder where it is missing. Readers see the old file or the whole new one.
Status keep_hardware(const Hardware& hardware, const std::string& path);

// What is kept in `path`; nullopt when nothing is, when it is of another device than `device`, or
// when it cannot be read (said in the log).
std::optional<Hardware> read_kept_hardware(const std::string& path, const std::string& device);
// Keeps it in `path`, unless that is empty. A folder that cannot be written is said in the log.
void keep_or_warn(const Hardware& hardware, const std::string& path);

// Returns the measurement that is kept for this machine, or nullopt when there is none, when it is
// of another processor, or when it cannot be read, which the log then says.
std::optional<Hardware> kept_hardware(const MachineProbeOptions& machine);

struct QuickProbe {
  Hardware hardware;
  bool disturbed = false;  // other programs took cores meanwhile, so the machine may be faster
};
// Does what probe_machine() does, in a tenth of a second.
Result<QuickProbe> quick_probe(MachineProbeOptions machine);
// Keeps what was measured for the next start, unless it was disturbed. A folder that cannot be
// written is said in the log.
void keep(const QuickProbe& probe, const MachineProbeOptions& machine);

// Returns the description for `name`, which is the path of a JSON file, a known name, or "auto" for
// this machine. "auto" takes the kept description, or else a quick probe, which is kept unless it
// was disturbed.
Result<Hardware> resolve_hardware(const std::string& name, const MachineProbeOptions& machine);

}  // namespace quire
