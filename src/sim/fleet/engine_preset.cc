#include "sim/fleet/engine_preset.h"

#include <algorithm>
#include <iterator>

namespace quire::sim {
namespace {

constexpr double kMiB = 1 << 20;

// vLLM's logs show 0.16 to 0.33 GiB besides torch, and peaks in the sampler of 20 bytes per logit
// (37 in its first engine). SGLang and TensorRT-LLM count differently.
constexpr ServerMemory kVllmMemory = {
    .context_bytes = 200 * kMiB, .parallel_bytes = 120 * kMiB, .bytes_per_logit = 20};
// From 0.21 on, vLLM also reserves the memory that CUDA graphs will take.
constexpr ServerMemory kVllmMemoryWithGraphs = {
    .context_bytes = 720 * kMiB, .parallel_bytes = 120 * kMiB, .bytes_per_logit = 20};
constexpr ServerMemory kSglangMemory = {
    .budget = KvBudget::kStatic, .context_bytes = 500 * kMiB, .parallel_bytes = 1200 * kMiB};
constexpr ServerMemory kTrtLlmMemory = {.budget = KvBudget::kFree,
                                        .context_bytes = 600 * kMiB,
                                        .parallel_bytes = 400 * kMiB,
                                        .bytes_per_logit = 8};

// From 0.14 on, vLLM plans a step ahead by default; in older versions the device waits for the
// host's work between steps. SGLang and TensorRT-LLM plan ahead, with less Python per step. Quire's
// own host time is that of its step loop.
constexpr EnginePreset kPresets[] = {
    {.name = "vllm-0.12",
     .async_scheduling = false,
     .step_us = 2000,
     .request_us = 5,
     .admission_us = 7000,
     .memory = kVllmMemory,
     .large = {.max_num_seqs = 1024, .max_num_batched_tokens = 8192},
     .small = {.max_num_seqs = 256, .max_num_batched_tokens = 2048}},
    {.name = "vllm-0.15",
     .step_us = 400,
     .request_us = 5,
     .admission_us = 7000,
     .memory = kVllmMemory,
     .large = {.max_num_seqs = 1024, .max_num_batched_tokens = 8192},
     .small = {.max_num_seqs = 256, .max_num_batched_tokens = 2048}},
    {.name = "vllm-0.19",
     .step_us = 400,
     .request_us = 5,
     .admission_us = 7000,
     .memory_utilisation = 0.92,
     .memory = kVllmMemory,
     .large = {.max_num_seqs = 1024, .max_num_batched_tokens = 8192},
     .small = {.max_num_seqs = 256, .max_num_batched_tokens = 2048}},
    {.name = "vllm-0.21",
     .step_us = 400,
     .request_us = 5,
     .admission_us = 7000,
     .memory_utilisation = 0.92,
     .memory = kVllmMemoryWithGraphs,
     .large = {.max_num_seqs = 1024, .max_num_batched_tokens = 8192},
     .small = {.max_num_seqs = 256, .max_num_batched_tokens = 2048}},
    {.name = "sglang",
     .step_us = 400,
     .request_us = 5,
     .admission_us = 7000,
     .memory_utilisation = 0.88,
     .memory = kSglangMemory,
     .block_size = 1,
     .large = {.max_num_seqs = 1024, .max_num_batched_tokens = 8192},
     .small = {.max_num_seqs = 256, .max_num_batched_tokens = 2048}},
    {.name = "trt-llm",
     .step_us = 400,
     .request_us = 5,
     .admission_us = 7000,
     .memory = kTrtLlmMemory,
     .block_size = 32,
     .never_preempts = true,
     .large = {.max_num_seqs = 2048, .max_num_batched_tokens = 8192},
     .small = {.max_num_seqs = 2048, .max_num_batched_tokens = 8192}},
    {.name = "quire",
     .step_us = 100,
     .request_us = 2,
     .admission_us = 1000,
     .large = {.max_num_seqs = 256, .max_num_batched_tokens = 8192},
     .small = {.max_num_seqs = 256, .max_num_batched_tokens = 8192}},
};

constexpr double kLargeMemoryBytes = 70.0 * (1 << 30);

bool is_large(const Hardware& hardware) {
  return hardware.memory_bytes >= kLargeMemoryBytes &&
         hardware.name.find("a100") == std::string::npos;
}

}  // namespace

std::string engine_preset_names() {
  std::string names;
  for (const EnginePreset& preset : kPresets) {
    if (!names.empty()) names += &preset == std::prev(std::end(kPresets)) ? " or " : ", ";
    names += preset.name;
  }
  return names;
}

Result<EnginePreset> find_engine_preset(std::string_view name) {
  const auto* const it =
      std::find_if(std::begin(kPresets), std::end(kPresets),
                   [name](const EnginePreset& preset) { return preset.name == name; });
  if (it != std::end(kPresets)) return *it;
  return invalid_argument("engine: expected {}, got '{}'", engine_preset_names(), name);
}

void set_host(const EnginePreset& preset, Hardware& hardware) {
  if (hardware.cpu) return;
  hardware.host.step_us = preset.step_us;
  hardware.host.request_us = preset.request_us;
  hardware.host.admission_us = preset.admission_us;
}

void set_pool(const EnginePreset& preset, const SetByUser& chosen, PoolOptions& pool) {
  set_host(preset, pool.hardware);
  SchedulerConfig& scheduler = pool.engine.scheduler;
  const BatchLimits& limits = is_large(pool.hardware) ? preset.large : preset.small;
  if (!chosen.max_num_batched_tokens) {
    scheduler.max_num_batched_tokens =
        chosen.max_num_seqs ? std::max(limits.max_num_batched_tokens, scheduler.max_num_seqs)
                            : limits.max_num_batched_tokens;
  }
  if (!chosen.max_num_seqs) {
    scheduler.max_num_seqs = std::min(limits.max_num_seqs, scheduler.max_num_batched_tokens);
  }
  if (!chosen.async_scheduling) scheduler.async_scheduling = preset.async_scheduling;
  if (preset.never_preempts) scheduler.max_preemptions = 0;
  if (!chosen.memory_utilisation) pool.memory_utilisation = preset.memory_utilisation;
  pool.memory = preset.memory;
  if (!chosen.block_size) pool.block_size = preset.block_size;
}

}  // namespace quire::sim
