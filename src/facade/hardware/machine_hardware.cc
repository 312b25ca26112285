#include "facade/hardware/machine_hardware.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "base/threads/cpu_topology.h"
#include "base/threads/thread_team.h"
#include "device/isa.h"
#include "device/stream.h"
#include "exec/memory/free_memory.h"
#include "facade/files/kept_text.h"
#include "kernels/bench/hardware_peaks.h"

namespace quire {
namespace {

constexpr double kGiga = 1e9;
constexpr int64_t kQuickCacheBytes = int64_t{16} << 20;
constexpr int64_t kDefaultCacheBytes = int64_t{16} << 20;

Result<Hardware> read_hardware(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("{}: expected a file that can be read", path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_hardware(text.str(), path);
}

int64_t last_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : kDefaultCacheBytes;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "machine";
  std::string text = name.data();
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

// Returns the processor's name by Linux; empty if there is none.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return {};
}

// Returns how often the system took a core from a thread of this process that still had work.
int64_t num_lost_cores() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

std::string machine_device_name() {
  const std::string processor = processor_name();
  return processor.empty() ? host_name() : fmt::format("{} ({})", host_name(), processor);
}

Result<Hardware> probe_machine(const MachineProbeOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(options.isa));
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, ThreadTeam::create({.num_threads = options.num_threads}));
  HostStream stream(team, isa);
  const ProbeOptions probe{.num_tries = options.num_tries > 0 ? options.num_tries
                                        : options.quick       ? 12
                                                              : 400};
  // Requires twice the memory, so that the probe does not make this process or others run out of
  // it.
  const int64_t needed = 2 * probe_memory_bytes(team.size());
  if (const int64_t free = free_memory_bytes(); free < needed) {
    return resource_exhausted("hardware: measuring this machine takes {} MiB, and only {} are free",
                              needed >> 20, free >> 20);
  }
  const HardwarePeaks peaks = probe_peaks(stream, probe);
  const int64_t cache_bytes = last_cache_bytes();
  QUIRE_ASSIGN_OR_RETURN(Hardware hardware, find_hardware(kGenericCpu));
  hardware.name = fmt::format("{}-{}-threads", host_name(), team.size());
  hardware.description =
      fmt::format("{} with {} threads, {}", host_name(), team.size(), to_string(isa));
  hardware.memory_bytes_per_s = peaks.read_gb_per_s * kGiga;
  hardware.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  hardware.peak_flops = {};
  hardware.peak_flops[static_cast<size_t>(MathType::kF32)] = peaks.f32_gflop_per_s * kGiga;
  hardware.peak_flops[static_cast<size_t>(MathType::kBf16)] = peaks.bf16_gflop_per_s * kGiga;
  hardware.peak_flops[static_cast<size_t>(MathType::kInt8)] = peaks.int8_gop_per_s * kGiga;
  hardware.cache_bytes = static_cast<double>(cache_bytes);
  // A cache of hundreds of megabytes takes long to fill; a part of it is as fast.
  const int64_t part = std::min(cache_bytes / 4, options.quick ? kQuickCacheBytes : cache_bytes);
  hardware.cache_bytes_per_s =
      std::max(hardware.memory_bytes_per_s, probe_cache_gb_per_s(stream, part) * kGiga);
  hardware.provenance = {.source = options.quick ? "quick probe at start" : "quire roofline probe",
                         .device = machine_device_name()};
  return hardware;
}

std::string hardware_path(const std::string& what) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path base;
  if (cache != nullptr && *cache != '\0') {
    base = cache;
  } else if (home != nullptr && *home != '\0') {
    base = std::filesystem::path(home) / ".cache";
  } else {
    return {};
  }
  return base / "quire" / fmt::format("hardware-{}-{}.json", host_name(), what);
}

std::string machine_hardware_path(const MachineProbeOptions& machine) {
  const int num_threads = machine.num_threads > 0 ? machine.num_threads : default_num_threads();
  const std::string isa = machine.isa == "auto" ? "" : "-" + machine.isa;
  return hardware_path(fmt::format("{}{}", num_threads, isa));
}

Status keep_hardware(const Hardware& hardware, const std::string& path) {
  return keep_text(to_json(hardware), path);
}

std::optional<Hardware> read_kept_hardware(const std::string& path, const std::string& device) {
  if (path.empty() || !std::filesystem::exists(path)) return std::nullopt;
  Result<Hardware> hardware = read_hardware(path);
  if (!hardware.ok()) {
    log_warn("{}; {} is measured again", hardware.status().message(), device);
    return std::nullopt;
  }
  if (hardware->provenance.device != device) return std::nullopt;
  return std::move(*hardware);
}

std::optional<Hardware> kept_hardware(const MachineProbeOptions& machine) {
  if (machine.again) return std::nullopt;
  return read_kept_hardware(machine_hardware_path(machine), machine_device_name());
}

void keep_or_warn(const Hardware& hardware, const std::string& path) {
  if (path.empty()) return;
  const Status kept = keep_hardware(hardware, path);
  if (!kept.ok())
    log_warn("{}: the next start measures {} again", kept.message(), hardware.provenance.device);
}

Result<QuickProbe> quick_probe(MachineProbeOptions machine) {
  // The system's own threads cause a few switches.
  constexpr int64_t kUndisturbed = 5;
  machine.quick = true;
  const int64_t before = num_lost_cores();
  QUIRE_ASSIGN_OR_RETURN(Hardware hardware, probe_machine(machine));
  return QuickProbe{std::move(hardware), num_lost_cores() - before > kUndisturbed};
}

void keep(const QuickProbe& probe, const MachineProbeOptions& machine) {
  if (!probe.disturbed) keep_or_warn(probe.hardware, machine_hardware_path(machine));
}

Result<Hardware> resolve_hardware(const std::string& name, const MachineProbeOptions& machine) {
  if (name == "auto") {
    if (std::optional<Hardware> kept = kept_hardware(machine)) return std::move(*kept);
    QUIRE_ASSIGN_OR_RETURN(QuickProbe probe, quick_probe(machine));
    keep(probe, machine);
    return std::move(probe.hardware);
  }
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".json");
  return is_path ? read_hardware(name) : find_hardware(name);
}

}  // namespace quire
