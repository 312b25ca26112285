// EngineArgs is everything that an operator may set about loading and running one model: the flags
// of `quire serve`, chat, generate and bench, and LLMOptions, all end here.
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

// What a program cannot do without, asked before the weights are read.
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

// Processes that share a model have one rank each.
struct RankArgs {
  int32_t rank = 0;
  int32_t size = 1;
  int32_t num_on_host = 1;  // ranks that share this machine's cores and memory
  std::string address;      // where the first rank is
  uint16_t port = 29500;    // where it listens for the others
};

// LoRA adapters that requests may name.
struct LoraArgs {
  bool enabled = false;
  int32_t max_loras = 8;              // different ones in one step
  int32_t max_cpu_loras = 0;          // in memory at once; 0: as few as the others allow
  int64_t max_lora_rank = 16;         // 0: that of `modules`
  int64_t memory_bytes = 0;           // for all; 0: as ModelRunnerOptions::lora_memory_bytes says
  std::vector<NamedAdapter> modules;  // loaded at the start

  int32_t max_loaded() const {
    if (!enabled) return 0;
    return std::max({max_loras, max_cpu_loras, static_cast<int32_t>(modules.size())});
  }
};

// MmprojArgs says where the tower of a model in a .gguf file is.
struct MmprojArgs {
  std::string path;     // empty: in the one file beside the model whose name has "mmproj" in it
  bool enabled = true;  // else nowhere: the model is asked about texts alone
};

struct EngineArgs {
  std::string model;  // Hugging Face directory or .gguf file; empty: the built-in model
  MmprojArgs mmproj;
  std::string shape;  // instead of `model`: a named shape with random weights, for benchmarks

  std::string shape_weights = "auto";  // of a shape: int4-g128, q4_k …

  // A Jinja template in place of the model's own, as a file or as the template itself; when it is
  // empty, the model's own is used.
  std::string chat_template;

  RequiredText required_text = RequiredText::kNone;

  std::string dtype = "auto";
  std::string kv_cache_dtype = "auto";
  bool activation_int8 = false;  // on a CPU: int8 activations for quantized weights of integers
  std::string isa = "auto";
  std::string device = "auto";  // cpu, cuda, or auto (a GPU when one can take the model)
  bool deterministic = true;    // on a GPU: a request's bits do not depend on its batch
  // On a GPU the graphs that are captured: none, piecewise or full
  // (exec/gpu/graphs/graph_dispatcher.h).
  std::string cudagraph_mode = "full";
  bool enforce_eager = false;           // the same as none
  bool programmatic_launch = true;      // on a GPU: a kernel begins while the one before it ends
  int32_t num_threads = 0;              // 0: one per physical core, within the CPU quota
  int32_t tensor_parallel_size = 1;     // ranks of this process that share every layer
  std::string devices;                  // of GPUs: their numbers (facade/parallel/gpu_ordinals.h)
  int32_t pipeline_parallel_size = 1;   // stages of this process that share the layers
  int32_t data_parallel_size = 1;       // engines of this process; on a CPU they share the weights
  bool enable_expert_parallel = false;  // ranks have experts whole instead of columns of each
  std::string all2all_backend =
      "auto";                // how outputs of such experts come together: the way that moves
                             // fewer bytes, allgather_reducescatter, or all2all
  bool enable_eplb = false;  // such experts are dealt out by load
  std::string eplb_config;   // JSON (facade/parallel/eplb_config.h); empty: the defaults
  RankArgs ranks;            // or ranks in processes of their own
  std::string distributed_executor_backend = "auto";
  bool pin_threads = false;      // each compute thread keeps to one core
  std::string weight_cache_dir;  // packed weights are kept here between starts; empty: nowhere
  std::string kv_cache_dir;      // KV of prompts is kept here between starts; empty: nowhere
  int64_t kv_cache_dir_bytes = int64_t{10} << 30;
  std::string kv_events_config;  // JSON (facade/kv_cache/kv_events.h); empty: none are published
  std::string
      kv_transfer_config;        // JSON (facade/kv_cache/kv_transfer_config.h); empty: no handovers
  int32_t block_size = 16;       // tokens
  int32_t max_images = 16;       // of one prompt
  int32_t max_image_tokens = 0;  // 0: as many as the model's files allow
  int32_t state_block_size = 512;  // tokens from one snapshot of states to the next
  double memory_utilization =
      0.9;  // share of the machine's free memory that weights, workspace and KV may take

  LoraArgs lora;

  // This is JSON or "none" (facade/speculation/speculative_config.h). When it is empty, suffixes
  // are drafted where drafts cost nothing.
  std::string speculative_config;

  // The hardware that bounds and predictions of steps are computed against: the name of a known
  // device, or a JSON file. "auto" takes this machine, as an earlier measurement describes it
  // (`quire roofline probe`, or a short probe at an earlier start), or probes it shortly. "none"
  // computes nothing.
  std::string hardware = "auto";
  bool probe_again = false;      // "auto" measures, although a measurement is kept
  bool probe_when_idle = false;  // "auto" measures when the engine runs and has nothing to do
  std::string step_log;          // file for one JSON line per step; empty: none
  std::string chrome_trace;      // file for trace events; empty: none

  // max_model_len 0 stands for the model's length, or what the KV memory can hold of it.
  EngineOptions engine = default_engine_options();

  // It is called while weights load, from the loading thread.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress;
};

}  // namespace quire
