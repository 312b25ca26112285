// EngineArgs has all settings for loading and running one model. The flags of `quire serve`, chat,
// generate and bench, and LLMOptions, are all stored here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/adapters/adapter_registry.h"
#include "engine/engine_options.h"

namespace quire {

// What a program needs of the model; checked before the weights are read.
enum class RequiredText { kNone, kTokenizer, kChatTemplate };

// Returns what users get who say nothing. SchedulerConfig's own numbers are only what tests begin
// with: the command line has others for GPUs, and the simulator those of the engine it simulates.
inline EngineOptions default_engine_options() {
  EngineOptions options;
  options.scheduler.max_num_seqs = 128;
  options.scheduler.max_model_len = 0;
  options.scheduler.async_scheduling = true;
  return options;
}

// Each of the processes that share a model has one rank.
struct RankArgs {
  int32_t rank = 0;
  int32_t size = 1;
  int32_t num_on_host = 1;  // ranks that share this machine's cores and memory
  std::string address;      // of the first rank
  uint16_t port = 29500;    // on which the first rank listens for the others
};

// LoRA adapters that requests may name.
struct LoraArgs {
  bool enabled = false;
  int32_t max_loras = 8;  // different adapters in one step
  // Adapters in memory at once; 0: as few as the other flags allow.
  int32_t max_cpu_loras = 0;
  int64_t max_lora_rank = 16;  // 0: that of `modules`
  // For all adapters together; 0: ModelRunnerOptions::lora_memory_bytes decides.
  int64_t memory_bytes = 0;
  std::vector<NamedAdapter> modules;  // loaded at the start

  int32_t max_loaded() const {
    if (!enabled) return 0;
    return std::max({max_loras, max_cpu_loras, static_cast<int32_t>(modules.size())});
  }
};

// The vision tower of a model in a .gguf file.
struct MmprojArgs {
  std::string path;     // empty: the one file beside the model with "mmproj" in its name
  bool enabled = true;  // false: no tower, the model only reads texts
};

struct EngineArgs {
  std::string model;  // Hugging Face directory or .gguf file; empty: the built-in model
  MmprojArgs mmproj;
  std::string shape;  // in place of `model`: a named shape with random weights, for benchmarks

  std::string shape_weights = "auto";  // of a shape: int4-g128, q4_k …

  // A Jinja template in place of the model's own, as a file or as the template itself; empty: the
  // model's own.
  std::string chat_template;

  RequiredText required_text = RequiredText::kNone;

  std::string dtype = "auto";
  std::string kv_cache_dtype = "auto";
  bool activation_int8 = false;  // on a CPU: int8 activations for integer weights
  std::string isa = "auto";
  std::string device = "auto";  // cpu, cuda, or auto (a GPU when one can take the model)
  bool deterministic = true;    // on a GPU: a request's bits do not depend on its batch
  // On a GPU, the kind of graphs to capture: none, piecewise or full
  // (exec/gpu/graphs/graph_dispatcher.h).
  std::string cudagraph_mode = "full";
  bool enforce_eager = false;           // the same as none
  bool programmatic_launch = true;      // on a GPU: a kernel may begin while the previous one ends
  int32_t num_threads = 0;              // 0: one per physical core, within the CPU quota
  int32_t tensor_parallel_size = 1;     // ranks of this process that share every layer
  std::string devices;                  // numbers of GPUs (facade/parallel/gpu_ordinals.h)
  int32_t pipeline_parallel_size = 1;   // stages of this process that share the layers
  int32_t data_parallel_size = 1;       // engines of this process; on a CPU they share the weights
  bool enable_expert_parallel = false;  // each rank has whole experts instead of columns of all
  // How the outputs of whole experts are combined: allgather_reducescatter, all2all, or "auto",
  // which is the one that moves fewer bytes.
  std::string all2all_backend = "auto";
  bool enable_eplb = false;  // distribute whole experts among ranks by load
  std::string eplb_config;   // JSON (facade/parallel/eplb_config.h); empty: the defaults
  RankArgs ranks;            // for ranks in processes of their own
  std::string distributed_executor_backend = "auto";
  bool pin_threads = false;      // each compute thread stays on one core
  std::string weight_cache_dir;  // keeps packed weights between starts; empty: not kept
  std::string kv_cache_dir;      // keeps the KV of prompts between starts; empty: not kept
  int64_t kv_cache_dir_bytes = int64_t{10} << 30;
  std::string kv_events_config;  // JSON (facade/kv_cache/kv_events.h); empty: none are published
  std::string
      kv_transfer_config;        // JSON (facade/kv_cache/kv_transfer_config.h); empty: no handovers
  int32_t block_size = 16;       // tokens
  int32_t max_images = 16;       // of one prompt
  int32_t max_image_tokens = 0;  // 0: as many as the model's files allow
  int32_t state_block_size = 512;  // tokens between snapshots of states
  double memory_utilization =
      0.9;  // share of the machine's free memory that weights, workspace and KV may take

  LoraArgs lora;

  // JSON or "none" (facade/speculation/speculative_config.h). Empty: drafts by suffix matching, if
  // drafts cost nothing.
  std::string speculative_config;

  // The hardware for which bounds and predictions of steps are computed: the name of a known
  // device, or a JSON file. "auto" is this machine, by an earlier measurement (`quire roofline
  // probe`, or a short probe at an earlier start) or else by a short probe. "none" computes
  // nothing.
  std::string hardware = "auto";
  bool probe_again = false;      // "auto" measures even if an earlier measurement is kept
  bool probe_when_idle = false;  // "auto" measures when the engine runs and is idle
  std::string step_log;          // file for one JSON line per step; empty: none
  std::string chrome_trace;      // file for trace events; empty: none

  // max_model_len 0 means the model's length, or less if the KV memory cannot hold that.
  EngineOptions engine = default_engine_options();

  // Called by the loading thread while weights load.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress;
};

}  // namespace quire
