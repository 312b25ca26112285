// Describes the machine that the program runs on, as hardware of the roofline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "roofline/hardware/hardware.h"

namespace quire {

// A known description that roughly fits any CPU, for values that were not measured.
inline constexpr const char* kGenericCpu = "cpu-avx512";

struct MachineProbeOptions {
  std::string isa = "auto";
  int32_t num_threads = 0;  // 0: one per physical core
  bool again = false;       // ignore a kept result
  bool quick = false;       // a tenth of a second instead of some seconds; a few percent too low
  int32_t num_tries = 0;    // the best try counts; 0: few when quick, else many
};

// Returns this machine's name for provenance.device: its host name and its processor.
std::string machine_device_name();

// Measures read bandwidth (memory and cache) and multiply-add peaks; shares and overheads are those
// of the generic CPU description.
Result<Hardware> probe_machine(const MachineProbeOptions& options);

// Returns the path where measurements of this host's `what` are kept, below $XDG_CACHE_HOME or
// ~/.cache; empty if neither variable is set.
std::string hardware_path(const std::string& what);

// Returns the path where measurements of this machine are kept: hardware_path() of the number of
// threads and the instruction set in `machine`.
std::string machine_hardware_path(const MachineProbeOptions& machine);

// Writes `path` as keep_text() does.
Status keep_hardware(const Hardware& hardware, const std::string& path);

// Returns what is kept in `path`; nullopt if there is nothing, if it is of another device than
// `device`, or if it cannot be read (which is logged).
std::optional<Hardware> read_kept_hardware(const std::string& path, const std::string& device);
// Keeps it in `path`, unless that is empty. If the folder cannot be written, it logs a warning.
void keep_or_warn(const Hardware& hardware, const std::string& path);

// Returns the measurement that is kept for this machine; nullopt if there is none, if it is of
// another processor, or if it cannot be read (which is logged).
std::optional<Hardware> kept_hardware(const MachineProbeOptions& machine);

struct QuickProbe {
  Hardware hardware;
  bool disturbed = false;  // other programs took cores meanwhile, so the machine may be faster
};
// Does what probe_machine() does, in a tenth of a second.
Result<QuickProbe> quick_probe(MachineProbeOptions machine);
// Keeps the result for the next start, unless the probe was disturbed. If the folder cannot be
// written, it logs a warning.
void keep(const QuickProbe& probe, const MachineProbeOptions& machine);

// Returns the hardware for `name`, which is the path of a JSON file, a known name, or "auto" for
// this machine. For "auto" it is the kept measurement or else a quick probe, which is kept unless
// it was disturbed.
Result<Hardware> resolve_hardware(const std::string& name, const MachineProbeOptions& machine);

}  // namespace quire
