#include "facade/hardware/gpu_hardware.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "device/cuda_device.h"
#include "facade/hardware/machine_hardware.h"
#include "kernels/cuda_ops.h"
#include "kernels/gpu_bench.h"

namespace quire {
namespace {

constexpr int64_t kProbeBytes = int64_t{2} << 30;
constexpr const char* kSimilarGpu = "h200-sxm";

Result<Hardware> probe(Device& device) {
  QUIRE_ASSIGN_OR_RETURN(const GpuLimits limits,
                         probe_gpu_limits(device, {.memory_bytes = kProbeBytes}));
  QUIRE_ASSIGN_OR_RETURN(Hardware hardware, find_hardware(kSimilarGpu));
  const DeviceInfo info = device.info();
  hardware.name = hardware.description = info.name;
  hardware.num_units = info.gpu.num_sms;
  hardware.memory_bytes = static_cast<double>(info.total_memory_bytes);
  hardware.memory_bytes_per_s = limits.bytes_per_s;
  // FP8 and int8 products run at twice the rate of bf16 ones, as the datasheets say.
  const double& bf16 = hardware.peak_flops[static_cast<size_t>(MathType::kBf16)];
  const double share = limits.bf16_flop_per_s / bf16;
  for (double& peak : hardware.peak_flops) peak *= share;
  hardware.provenance = {.source = "probe", .device = info.name};
  return hardware;
}

std::string file_name_of(std::string gpu) {
  for (char& c : gpu) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return gpu;
}

}  // namespace

Result<Hardware> probe_gpu() {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, open_cuda_device({}, cuda_ops()));
  return probe(*device);
}

Result<Hardware> gpu_hardware(bool again) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, open_cuda_device({}, cuda_ops()));
  const std::string name = device->info().name;
  const std::string path = hardware_path(file_name_of(name));
  if (!again) {
    if (std::optional<Hardware> kept = read_kept_hardware(path, name)) return std::move(*kept);
  }
  QUIRE_ASSIGN_OR_RETURN(Hardware hardware, probe(*device));
  keep_or_warn(hardware, path);
  return hardware;
}

}  // namespace quire
