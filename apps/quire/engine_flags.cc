#include "quire/engine_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/text_fields.h"
#include "quire/flag_checks.h"
#include "quire/vllm_flags.h"

namespace quire::cli {
namespace {

const std::map<std::string, SchedulingPolicy> kPolicies{{"fcfs", SchedulingPolicy::kFcfs},
                                                        {"priority", SchedulingPolicy::kPriority},
                                                        {"sjf", SchedulingPolicy::kSjf}};

void add_kv_sharing_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Memory and KV cache";
  verb.add_option(
          "--kv-events-config", args.kv_events_config,
          "Publish the content of the prefix cache to routers over ZeroMQ. JSON: "
          "{\"enable_kv_cache_events\":true,\"endpoint\":\"tcp://*:5557\"} (docs/kv_events.md)")
      ->group(kGroup);
  verb.add_option("--kv-transfer-config", args.kv_transfer_config,
                  "Run prefill and decode in separate servers that share --kv-cache-dir. JSON: "
                  "{\"kv_connector\":\"QuireConnector\",\"kv_role\":\"kv_producer\"}, "
                  "\"kv_consumer\" or \"kv_both\" (docs/prefill_decode.md)")
      ->group(kGroup);
}

void add_memory_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Memory and KV cache";
  verb.add_option("--max-model-len", args.engine.scheduler.max_model_len,
                  "Largest number of prompt and output tokens of one request, for example 8192 or "
                  "32k; 0, auto or -1: as many as the model allows, or as fit into memory")
      ->transform(token_count("0"))
      ->group(kGroup);
  verb.add_option("--memory-utilization,--gpu-memory-utilization", args.memory_utilization,
                  "Share of the free memory that weights, workspace and KV cache may take together")
      ->check(between(0.01, 1.0))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--kv-cache-memory,--kv-cache-memory-bytes", args.engine.kv_cache_bytes,
                  "Memory for the KV cache, for example 2GiB; overrides --memory-utilization")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option(
          "--num-gpu-blocks-override", args.engine.num_blocks,
          "Number of KV blocks, including the null block; default: as many as the memory allows")
      ->check(in_range(2, 1 << 30))
      ->group(kGroup);
  verb.add_option("--block-size", args.block_size, "Tokens per KV block")
      ->check(one_of({"8", "16", "32", "64", "128"}))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--mamba-block-size", args.state_block_size,
                  "Tokens between two snapshots of a model whose layers keep states; prefix hits "
                  "end at a snapshot")
      ->check(in_range(8, 1 << 20))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--kv-cache-dtype", args.kv_cache_dtype,
                  "Type of keys and values in the KV cache: auto (as --dtype), float32, bfloat16, "
                  "float16, fp8 (fp8_e4m3), fp8_e5m2 or int8; on a GPU only bfloat16 or fp8")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--kv-offload-memory", args.engine.kv_offload_bytes,
                  "On a GPU: host memory for KV blocks that are moved out of GPU memory, for "
                  "example 16GiB. With --kv-cache-dir also for blocks on their way to and from "
                  "files; its default is then 512MiB on a CPU and 4GiB on a GPU")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--kv-cache-dir", args.kv_cache_dir,
                  "Store the KV of prompts in files of this directory, where later starts and "
                  "other servers of the same model find it (docs/kv_tiers.md)")
      ->group(kGroup);
  verb.add_option(
          "--kv-cache-dir-bytes", args.kv_cache_dir_bytes,
          "Largest total size of the files in --kv-cache-dir, for example 100GiB (default: 10GiB)")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
                args.engine.kv.enable_prefix_caching,
                "Reuse the KV of prompts with a common prefix (default: on)")
      ->group(kGroup);
  add_kv_sharing_flags(verb, args);
}

// Replaces the name of a policy by its number, which CLI11 reads as the enumerator.
CLI::Validator policy_name() {
  const auto to_number = [](std::string& text) -> std::string {
    const auto found = kPolicies.find(text);
    if (found == kPolicies.end()) return "expected fcfs, priority or sjf, got " + text;
    text = std::to_string(static_cast<int>(found->second));
    return {};
  };
  return {to_number, ""};
}

// The flag takes auto, off, or whole milliseconds.
void add_max_step_flag(CLI::App& verb, SchedulerConfig& config, const char* group) {
  static constexpr int64_t kMostMs = 3'600'000;
  const std::string fallback = config.step_time.max_step_us > 0 ? "auto" : "off";
  const auto check = [](std::string& text) {
    if (text == "auto" || text == "off" || in_range(1, kMostMs)(text).empty()) return std::string();
    return fmt::format("expected auto, off or 1 to {} milliseconds, got {}", kMostMs, text);
  };
  verb.add_option_function<std::string>(
          "--max-step-ms",
          [&config](const std::string& text) {
            config.step_time = {};
            if (text == "auto") config.step_time = StepTimeLimit::automatic();
            if (text != "auto" && text != "off")
              config.step_time.max_step_us = 1000 * std::stoll(text);
          },
          "While a request is decoding, a step takes only as many prompt tokens as are predicted "
          "to fit into this many milliseconds; auto: the larger of 100 ms and the time of 4 decode "
          "steps; off: no limit (default: " +
              fallback + ")")
      ->check(CLI::Validator(check, ""))
      ->group(group);
}

void add_roofline_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Roofline";
  verb.add_option("--hardware", args.hardware,
                  "Hardware for which bounds are computed: auto (this machine), none, a known "
                  "device or a JSON file (see quire roofline)")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--probe-again", args.probe_again,
                "With --hardware auto: measure this machine again, even if a measurement is stored")
      ->group(kGroup);
  verb.add_option("--step-log", args.step_log,
                  "Write a line of JSON for each engine step to this file, which quire roofline "
                  "calibrate reads")
      ->group(kGroup);
  verb.add_option(
          "--trace", args.chrome_trace,
          "Write the engine's steps as trace events for chrome://tracing or Perfetto to this file")
      ->group(kGroup);
}

void add_expert_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Execution";
  verb.add_flag("--enable-expert-parallel,!--no-enable-expert-parallel",
                args.enable_expert_parallel,
                "Give each rank whole experts instead of some columns of every expert. Answers are "
                "bit-identical")
      ->group(kGroup);
  verb.add_option("--all2all-backend", args.all2all_backend,
                  "How the outputs of the experts are combined with --enable-expert-parallel: auto "
                  "(the way that moves fewer bytes), allgather_reducescatter or all2all; vLLM's "
                  "deepep_… are other names of all2all")
      ->check(one_of({"auto", "allgather_reducescatter", "all2all", "deepep_high_throughput",
                      "deepep_low_latency"}))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--enable-eplb,!--no-enable-eplb", args.enable_eplb,
                "Move experts between ranks by their load while requests run")
      ->group(kGroup);
  verb.add_option(
          "--eplb-config", args.eplb_config,
          "JSON object with settings of --enable-eplb: window_size (steps over which loads are "
          "counted, default 1000), step_interval (steps from one placement to the next, default "
          "3000), num_redundant_experts (copies of experts in each layer, default 0)")
      ->group(kGroup);
}

void add_parallel_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Execution";
  verb.add_option("--tensor-parallel-size", args.tensor_parallel_size,
                  "Number of ranks that share every layer. On CPUs they divide threads and memory, "
                  "and on a machine with several memory nodes each rank keeps to its own nodes; "
                  "with --device cuda each has a GPU, at most 8. Answers are bit-identical")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--devices", args.devices,
                  "GPU numbers, one for each rank of each stage of each engine, such as 0,1. "
                  "Several ranks may share a GPU, which is slower. Default: the first GPUs")
      ->group(kGroup);
  verb.add_option("--pipeline-parallel-size", args.pipeline_parallel_size,
                  "Number of pipeline stages, each of which runs a step of its own at the same "
                  "time. They divide the layers, and on CPUs also threads, memory nodes and "
                  "memory, or the processes of --nnodes; with --device cuda each rank of each "
                  "stage has a GPU. Answers are bit-identical")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--data-parallel-size", args.data_parallel_size,
                  "Number of engines behind one port; each request goes to one of them. On CPUs "
                  "they share the weights and divide threads, memory nodes and memory; with "
                  "--device cuda each has its own GPUs and weights. Answers are bit-identical")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kGroup);
  add_expert_flags(verb, args);
  constexpr const char* kRanks = "Ranks in separate processes";
  verb.add_option("--nnodes", args.ranks.size,
                  "Number of processes that share the model, one rank each, in "
                  "--pipeline-parallel-size stages. Start each with the same flags except "
                  "--node-rank; mpirun and LeaderWorkerSet set the flags of this group themselves")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kRanks);
  verb.add_option("--node-rank", args.ranks.rank, "Rank of this process; rank 0 serves")
      ->check(in_range(0, 63))
      ->capture_default_str()
      ->group(kRanks);
  verb.add_option("--master-addr", args.ranks.address, "Name or address of the host of rank 0")
      ->group(kRanks);
  verb.add_option("--master-port", args.ranks.port,
                  "Port at which rank 0 waits for the other ranks")
      ->check(in_range(1, 65535))
      ->capture_default_str()
      ->group(kRanks);
  verb.add_option("--distributed-executor-backend", args.distributed_executor_backend,
                  "external_launcher: srun or torchrun sets the rank of this process; the other "
                  "values mean that ranks are threads of this process")
      ->check(one_of({"auto", "uni", "mp", "ray", "external_launcher"}))
      ->capture_default_str()
      ->group(kRanks);
}

void add_queue_flags(CLI::App& verb, SchedulerConfig& config, const char* group) {
  verb.add_option("--max-num-queued-reqs", config.max_num_queued_reqs,
                  "Largest number of waiting requests; more are refused with 429")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(group);
  verb.add_option(
          "--max-num-queued-tokens", config.max_num_queued_tokens,
          "Largest number of prompt tokens of all waiting requests; more are refused with 429")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(group);
}

// These defaults suit an 8B model on a GPU of the Hopper generation.
constexpr int32_t kGpuSeqs = 256;
constexpr int32_t kGpuBatchedTokens = 8192;

// Adds the limits of a step. `device` is as in add_scheduler_flags().
void add_step_size_flags(CLI::App& verb, SchedulerConfig& config, const std::string* device,
                         const char* group) {
  const auto on_gpu = [device](int32_t value) {
    return device == nullptr ? "" : fmt::format("; with --device cuda the default is {}", value);
  };
  const CLI::Option* const seqs =
      verb.add_option("--max-num-seqs", config.max_num_seqs,
                      "Largest number of requests in one step" + on_gpu(kGpuSeqs))
          ->check(at_least(1))
          ->capture_default_str()
          ->group(group);
  const CLI::Option* const tokens =
      verb.add_option("--max-num-batched-tokens", config.max_num_batched_tokens,
                      "Largest number of tokens in one step, for example 2048 or 8k" +
                          on_gpu(kGpuBatchedTokens))
          ->check(at_least(1))
          ->transform(token_count())
          ->capture_default_str()
          ->group(group);
  // A GPU runs many rows as fast as few, and every request of a step has at least one token in it.
  // So where one of the two flags is left out, its default follows the other.
  verb.parse_complete_callback([seqs, tokens, &config, device] {
    const bool is_gpu = device != nullptr && *device == "cuda";
    if (is_gpu && seqs->empty()) config.max_num_seqs = kGpuSeqs;
    if (is_gpu && tokens->empty()) config.max_num_batched_tokens = kGpuBatchedTokens;
    if (seqs->empty()) {
      config.max_num_seqs = std::min(config.max_num_seqs, config.max_num_batched_tokens);
    } else if (tokens->empty()) {
      config.max_num_batched_tokens = std::max(config.max_num_batched_tokens, config.max_num_seqs);
    }
  });
}

}  // namespace

void add_scheduler_flags(CLI::App& verb, SchedulerConfig& config, const std::string* device) {
  constexpr const char* kGroup = "Scheduling";
  add_step_size_flags(verb, config, device, kGroup);
  verb.add_option(
          "--express-tokens", config.express_tokens,
          "Requests of at most this many tokens (prompt and max_tokens together) may also use one "
          "to 16 places that are reserved for them beyond --max-num-seqs; 0: no such places")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--long-prefill-token-threshold", config.long_prefill_token_threshold,
                  "Largest number of prompt tokens of one request in one step; 0: no limit")
      ->check(at_least(0))
      ->group(kGroup);
  add_max_step_flag(verb, config, kGroup);
  verb.add_flag("--enable-chunked-prefill,!--no-enable-chunked-prefill",
                config.enable_chunked_prefill,
                "Compute long prompts in chunks while other requests run (default: on)")
      ->group(kGroup);
  verb.add_option("--scheduling-policy", config.policy,
                  "Order in which requests are served: fcfs (first come, first served), priority "
                  "(by the priority field of requests, lower values first) or sjf (shortest job "
                  "first: fewest tokens left); default: fcfs")
      ->transform(policy_name())
      ->group(kGroup);
  verb.add_flag("--scheduler-reserve-full-isl,!--no-scheduler-reserve-full-isl",
                config.reserve_full_isl,
                "Admit a request only when the KV of its whole prompt fits (default: on)")
      ->group(kGroup);
  verb.add_option("--watermark", config.watermark,
                  "Share of the KV blocks that must stay free when a request is admitted")
      ->check(between(0.0, 0.9))
      ->capture_default_str()
      ->group(kGroup);
  add_queue_flags(verb, config, kGroup);
}

void add_model_argument(CLI::App& verb, EngineArgs& args) {
  verb.add_option("MODEL", args.model,
                  "Hugging Face directory or .gguf file; default: the built-in model");
}

void add_chat_template_flag(CLI::App& verb, EngineArgs& args) {
  verb.add_option(
      "--chat-template", args.chat_template,
      "Jinja template to use instead of the model's own: a file, or the template itself");
}

namespace {

void add_image_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Images";
  MmprojArgs& mmproj = args.mmproj;
  verb.add_option("--max-images", args.max_images, "Largest number of images in one prompt")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-image-tokens", args.max_image_tokens,
                  "Largest number of tokens of one image: larger images are scaled down or cut "
                  "into fewer tiles; 0: as many as the model's files allow")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--mmproj", mmproj.path,
                  "File with the vision part of a .gguf model; default: the file beside the model "
                  "with \"mmproj\" in its name (docs/vision.md)")
      ->group(kGroup);
  verb.add_flag("!--no-mmproj", mmproj.enabled,
                "Do not read images, even if there is a file with the vision part beside the model")
      ->group(kGroup);
}

void add_gpu_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Execution";
  verb.add_flag("--deterministic,!--no-deterministic", args.deterministic,
                "On a GPU: compute answers whose bits do not depend on the other requests of the "
                "batch (default: on; on a CPU they never do)")
      ->group(kGroup);
  verb.add_flag("--async-scheduling,!--no-async-scheduling", args.engine.scheduler.async_scheduling,
                "On a GPU: plan and queue the next step while one runs (default: on)")
      ->group(kGroup);
  verb.add_option("--cudagraph-mode", args.cudagraph_mode,
                  "On a GPU: which steps run as captured CUDA graphs. none: no steps; piecewise: "
                  "all small steps, except for their attention; full: like piecewise, but steps in "
                  "which every request has one token run as one graph (default: full)")
      ->check(one_of({"none", "piecewise", "full"}))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--enforce-eager", args.enforce_eager,
                "On a GPU: run without CUDA graphs, the same as --cudagraph-mode none")
      ->group(kGroup);
  verb.add_flag("--programmatic-launch,!--no-programmatic-launch", args.programmatic_launch,
                "On a GPU: let each kernel begin while the one before it ends (default: on)")
      ->group(kGroup);
}

}  // namespace

void add_engine_flags(CLI::App& verb, EngineArgs& args) {
  add_image_flags(verb, args);
  constexpr const char* kGroup = "Execution";
  verb.add_option("--dtype", args.dtype,
                  "Type of the weights: auto (the checkpoint's), float32, bfloat16 or float16; "
                  "quantized weights are multiplied by activations in bfloat16 with auto and "
                  "bfloat16, else in float32")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--threads", args.num_threads,
                  "Number of compute threads; 0: one per physical core, within the CPU quota")
      ->check(in_range(0, 1024))
      ->group(kGroup);
  add_parallel_flags(verb, args);
  verb.add_flag("--pin-threads", args.pin_threads,
                "Keep each compute thread on one core; use it only if no other program runs on "
                "these cores")
      ->group(kGroup);
  verb.add_option("--device", args.device,
                  "Device that runs the model: cpu, cuda, or auto (a GPU if there is one that can "
                  "run the model, else the CPU)")
      ->check(one_of({"cpu", "cuda", "auto"}))
      ->capture_default_str()
      ->group(kGroup);
  add_gpu_flags(verb, args);
  verb.add_flag("--activation-int8", args.activation_int8,
                "On a CPU: round activations to int8, group by group, before they are multiplied "
                "by weights of q8_0, q4_0, q4_k and other integer types; `quire quantize MODEL "
                "--activation-int8` measures the loss of quality")
      ->group(kGroup);
  verb.add_option(
          "--isa", args.isa,
          "Instruction set of the CPU kernels: auto (the best of this machine), portable, avx2, "
          "avx512 or amx; avx2-core, avx512-core and avx512-vnni leave out later additions to them")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--speculative-config", args.speculative_config,
          "Draft tokens and verify several in one step. Answers stay the same and come sooner. "
          "JSON object with a method and num_speculative_tokens, such as {\"method\":\"suffix\"}, "
          "the default on a CPU for models whose layers keep no states. Other methods: ngram; "
          "draft_model, medusa, eagle or eagle3 with a model; mtp; self, a copy of the model with "
          "4 bits or its first num_hidden_layers. none: no drafts (docs/speculation.md)")
      ->group(kGroup);
  add_roofline_flags(verb, args);
  verb.add_option("--shape-weights", args.shape_weights,
                  "With --shape: type of the random weights: auto (as --dtype), int8, "
                  "int8-weights, int4-g32, int4-g128, fp8 or a GGUF type such as q4_k")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--cache-dir", args.weight_cache_dir,
          "Folder for packed weights, which later starts map into memory instead of packing them "
          "again, and for the algorithms that were measured on a GPU; safe to delete")
      ->group(kGroup);
  add_memory_flags(verb, args);
  add_scheduler_flags(verb, args.engine.scheduler, &args.device);
}

SamplingFlags::SamplingFlags(CLI::App& verb) {
  constexpr const char* kGroup = "Sampling";
  verb.add_option("--max-tokens", max_tokens_, "Largest number of tokens to generate")
      ->check(at_least(1))
      ->group(kGroup);
  verb.add_option("--temperature", temperature_,
                  "Sampling temperature; 0 always picks the likeliest token")
      ->check(between(0.0, 2.0))
      ->group(kGroup);
  verb.add_option("--top-p", top_p_,
                  "Sample only from the likeliest tokens whose probabilities sum to this")
      ->check(between(0.0, 1.0))
      ->group(kGroup);
  verb.add_option("--top-k", top_k_, "Sample only from this many of the likeliest tokens; 0: all")
      ->group(kGroup);
  verb.add_option(
          "--min-p", min_p_,
          "Leave out tokens whose probability is less than this share of the likeliest token's")
      ->check(between(0.0, 1.0))
      ->group(kGroup);
  verb.add_option("--repetition-penalty", repetition_penalty_,
                  "Values above 1 make repetition less likely")
      ->check(above_zero())
      ->group(kGroup);
  verb.add_option("--seed", seed_,
                  "Seed of the random numbers; the same seed gives the same answer (default: a "
                  "random seed)")
      ->group(kGroup);
  verb.add_option("--stop", stop_,
                  "End the answer where this text comes; may be given several times")
      ->group(kGroup);
}

SamplingParams SamplingFlags::apply(SamplingParams params) const {
  params.max_tokens = max_tokens_.value_or(params.max_tokens);
  params.temperature = temperature_.value_or(params.temperature);
  params.top_p = top_p_.value_or(params.top_p);
  params.top_k = top_k_.value_or(params.top_k);
  params.min_p = min_p_.value_or(params.min_p);
  params.repetition_penalty = repetition_penalty_.value_or(params.repetition_penalty);
  params.seed = seed_;
  params.stop = stop_;
  return params;
}

Result<std::string> text_or_file(const std::string& given) {
  constexpr size_t kMaxRuleBytes = size_t{1} << 20;
  std::error_code ec;
  if (!std::filesystem::is_regular_file(given, ec)) return given;
  return read_text(given, kMaxRuleBytes);
}

void add_progress_flag(CLI::App& verb, bool& always) {
  verb.add_flag("--progress", always,
                "Show progress on standard error even if that is no terminal");
}

ProgressBar progress_bar(std::string_view label, bool always) {
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  if (!is_terminal && !always) return nullptr;
  return [=, last = int64_t{-1}, label = std::string(label)](int64_t done, int64_t total) mutable {
    constexpr int kWidth = 30;
    const int64_t percent = total > 0 ? done * 100 / total : 100;
    const int64_t shown = is_terminal ? percent : percent / 10 * 10;
    if (shown == last) return;
    last = shown;
    const auto filled = static_cast<size_t>(percent * kWidth / 100);
    if (is_terminal) {
      fmt::print(stderr, "\r{} [{}{}] {:3d} %{}", label, std::string(filled, '#'),
                 std::string(kWidth - filled, ' '), percent, percent == 100 ? "\n" : "");
    } else {
      fmt::print(stderr, "{} {} %\n", label, shown);
    }
    std::fflush(stderr);
  };
}

}  // namespace quire::cli
