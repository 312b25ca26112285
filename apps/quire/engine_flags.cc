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
  verb.add_option("--kv-events-config", args.kv_events_config,
                  "Tell routers over ZeroMQ what the prefix cache holds. JSON: "
                  "{\"enable_kv_cache_events\":true,\"endpoint\":\"tcp://*:5557\"} "
                  "(docs/kv_events.md)")
      ->group(kGroup);
  verb.add_option("--kv-transfer-config", args.kv_transfer_config,
                  "Prefill and decode in servers of their own, which share --kv-cache-dir. JSON: "
                  "{\"kv_connector\":\"QuireConnector\",\"kv_role\":\"kv_producer\"}, "
                  "\"kv_consumer\" or \"kv_both\" (docs/prefill_decode.md)")
      ->group(kGroup);
}

void add_memory_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Memory and KV cache";
  verb.add_option(
          "--max-model-len", args.engine.scheduler.max_model_len,
          "Most tokens of prompt and output of one request, for example 8192 or 32k; 0, auto "
          "or -1: the model's, or what fits")
      ->transform(token_count("0"))
      ->group(kGroup);
  verb.add_option("--memory-utilization,--gpu-memory-utilization", args.memory_utilization,
                  "Share of free memory for weights, workspace and KV together")
      ->check(between(0.01, 1.0))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--kv-cache-memory,--kv-cache-memory-bytes", args.engine.kv_cache_bytes,
                  "Memory for KV blocks, for example 2GiB; overrides --memory-utilization")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--num-gpu-blocks-override", args.engine.num_blocks,
                  "Exactly this many KV blocks, the null block included")
      ->check(in_range(2, 1 << 30))
      ->group(kGroup);
  verb.add_option("--block-size", args.block_size, "Tokens per KV block")
      ->check(one_of({"8", "16", "32", "64", "128"}))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--mamba-block-size", args.state_block_size,
                  "Of models whose layers keep states: tokens from one snapshot to the next, where "
                  "prefix hits end")
      ->check(in_range(8, 1 << 20))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--kv-cache-dtype", args.kv_cache_dtype,
                  "auto (as --dtype), float32, bfloat16, float16, fp8 (fp8_e4m3), fp8_e5m2 or "
                  "int8; on a GPU bfloat16 or fp8")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--kv-offload-memory", args.engine.kv_offload_bytes,
          "On a GPU: host memory for KV blocks that leave the GPU's, for example 16GiB; with "
          "--kv-cache-dir also for those on their way to and from files (on a CPU 512MiB, on "
          "a GPU 4GiB)")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--kv-cache-dir", args.kv_cache_dir,
                  "Keep the KV of prompts in files of this directory, where later starts and other "
                  "servers of the same model find it (docs/kv_tiers.md)")
      ->group(kGroup);
  verb.add_option("--kv-cache-dir-bytes", args.kv_cache_dir_bytes,
                  "Most bytes of those files, for example 100GiB (10GiB)")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
                args.engine.kv.enable_prefix_caching,
                "Reuse the KV of prompts that start alike (on)")
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
          "While somebody is decoding, a step takes no more prompt tokens than are predicted to "
          "fit in so many milliseconds; auto: the larger of 100 and 4 decode steps; off: no limit "
          "(default: " +
              fallback + ")")
      ->check(CLI::Validator(check, ""))
      ->group(group);
}

void add_roofline_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Roofline";
  verb.add_option(
          "--hardware", args.hardware,
          "What bounds are computed against: auto (this machine), none, a known device or a "
          "JSON file (see quire roofline)")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--probe-again", args.probe_again,
                "With --hardware auto: measure this machine, although a measurement is kept")
      ->group(kGroup);
  verb.add_option("--step-log", args.step_log,
                  "File for one JSON line per engine step; quire roofline calibrate reads it")
      ->group(kGroup);
  verb.add_option("--trace", args.chrome_trace,
                  "File of trace events, for chrome://tracing or Perfetto")
      ->group(kGroup);
}

void add_expert_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Execution";
  verb.add_flag("--enable-expert-parallel,!--no-enable-expert-parallel",
                args.enable_expert_parallel,
                "Ranks have some experts whole each, instead of some columns of every expert. "
                "Answers are the same bits")
      ->group(kGroup);
  verb.add_option("--all2all-backend", args.all2all_backend,
                  "How the outputs of such experts come together: auto (the way that moves fewer "
                  "bytes), allgather_reducescatter, or all2all, which vLLM's deepep_… mean too")
      ->check(one_of({"auto", "allgather_reducescatter", "all2all", "deepep_high_throughput",
                      "deepep_low_latency"}))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--enable-eplb,!--no-enable-eplb", args.enable_eplb,
                "Deals such experts out to ranks by their loads, while requests run")
      ->group(kGroup);
  verb.add_option("--eplb-config", args.eplb_config,
                  "JSON: window_size (steps that are counted, 1000), step_interval (steps from one "
                  "placement to the next, 3000), num_redundant_experts (copies in each layer, 0)")
      ->group(kGroup);
}

void add_parallel_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Execution";
  verb.add_option("--tensor-parallel-size", args.tensor_parallel_size,
                  "Ranks that share every layer: on CPUs with the threads and the memory divided "
                  "among them, for machines with several memory nodes, of which each keeps to its "
                  "own; with --device cuda a GPU each, at most 8. Answers are the same bits")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--devices", args.devices,
                  "GPUs: a number for each rank of each stage of each engine, as 0,1; several may "
                  "be one GPU, which is slower. Default: the first ones")
      ->group(kGroup);
  verb.add_option(
          "--pipeline-parallel-size", args.pipeline_parallel_size,
          "Stages that have some layers each, with the threads, the memory nodes and the memory, "
          "or the processes of --nnodes, divided among them and a step under way in each; with "
          "--device cuda a GPU for each of their ranks. Answers are the same bits")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--data-parallel-size", args.data_parallel_size,
                  "Engines behind one port; each request goes to one of them. On CPUs they share "
                  "the weights and divide threads, memory nodes and memory, with --device cuda "
                  "each has GPUs and weights of its own. Answers are the same bits")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kGroup);
  add_expert_flags(verb, args);
  constexpr const char* kRanks = "Ranks in processes of their own";
  verb.add_option(
          "--nnodes", args.ranks.size,
          "Processes that share the model, one rank each, in --pipeline-parallel-size stages; "
          "each is started with the same flags but --node-rank. mpirun and LeaderWorkerSet "
          "say all this by themselves")
      ->check(in_range(1, 64))
      ->capture_default_str()
      ->group(kRanks);
  verb.add_option("--node-rank", args.ranks.rank, "Which of them this is; 0 serves")
      ->check(in_range(0, 63))
      ->capture_default_str()
      ->group(kRanks);
  verb.add_option("--master-addr", args.ranks.address, "Host of rank 0")->group(kRanks);
  verb.add_option("--master-port", args.ranks.port, "Port where rank 0 waits for the others")
      ->check(in_range(1, 65535))
      ->capture_default_str()
      ->group(kRanks);
  verb.add_option("--distributed-executor-backend", args.distributed_executor_backend,
                  "external_launcher: srun or torchrun says which rank this is; the others mean "
                  "threads of this process")
      ->check(one_of({"auto", "uni", "mp", "ray", "external_launcher"}))
      ->capture_default_str()
      ->group(kRanks);
}

// These defaults suit an 8B model on a GPU of the Hopper generation.
constexpr int32_t kGpuSeqs = 256;
constexpr int32_t kGpuBatchedTokens = 8192;

}  // namespace

void add_scheduler_flags(CLI::App& verb, SchedulerConfig& config, const std::string* device) {
  constexpr const char* kGroup = "Scheduling";
  const CLI::Option* const seqs =
      verb.add_option("--max-num-seqs", config.max_num_seqs,
                      "Most requests in one step; 256 with --device cuda")
          ->check(at_least(1))
          ->capture_default_str()
          ->group(kGroup);
  const CLI::Option* const tokens =
      verb.add_option("--max-num-batched-tokens", config.max_num_batched_tokens,
                      "Most tokens in one step, for example 2048 or 8k; 8192 with --device cuda")
          ->check(at_least(1))
          ->transform(token_count())
          ->capture_default_str()
          ->group(kGroup);
  verb.add_option("--express-tokens", config.express_tokens,
                  "A request of at most so many tokens, prompt and max_tokens together, may take a "
                  "place beside --max-num-seqs that only such requests have, one to 16 (0: none)")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kGroup);
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
  verb.add_option("--long-prefill-token-threshold", config.long_prefill_token_threshold,
                  "Most prompt tokens of one request in one step; 0: no limit")
      ->check(at_least(0))
      ->group(kGroup);
  add_max_step_flag(verb, config, kGroup);
  verb.add_flag("--enable-chunked-prefill,!--no-enable-chunked-prefill",
                config.enable_chunked_prefill,
                "Compute long prompts in pieces beside running requests (on)")
      ->group(kGroup);
  verb.add_option(
          "--scheduling-policy", config.policy,
          "fcfs (arrival), priority (request field, lower first) or sjf (fewest tokens left)")
      ->transform(policy_name())
      ->group(kGroup);
  verb.add_flag("--scheduler-reserve-full-isl,!--no-scheduler-reserve-full-isl",
                config.reserve_full_isl, "Admit a request only when its whole prompt fits (on)")
      ->group(kGroup);
  verb.add_option("--watermark", config.watermark, "Share of KV blocks kept free when admitting")
      ->check(between(0.0, 0.9))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-num-queued-reqs", config.max_num_queued_reqs,
                  "Most waiting requests; beyond: 429")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-num-queued-tokens", config.max_num_queued_tokens,
                  "Most prompt tokens of waiting requests; beyond: 429")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
}

void add_model_argument(CLI::App& verb, EngineArgs& args) {
  verb.add_option("MODEL", args.model,
                  "Hugging Face directory or .gguf file; nothing: the built-in model");
}

void add_chat_template_flag(CLI::App& verb, EngineArgs& args) {
  verb.add_option("--chat-template", args.chat_template,
                  "Jinja instead of the model's own template: a file, or the template itself");
}

namespace {

void add_image_flags(CLI::App& verb, EngineArgs& args) {
  constexpr const char* kGroup = "Images";
  MmprojArgs& mmproj = args.mmproj;
  verb.add_option("--max-images", args.max_images, "Most images of one prompt")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--max-image-tokens", args.max_image_tokens,
          "Most tokens of an image: larger pictures are shrunk, or cut into fewer tiles; 0: "
          "as many as the model's files allow")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--mmproj", mmproj.path,
          "File with what reads images for a model in a .gguf file; nothing: the one beside "
          "the model whose name has \"mmproj\" in it (docs/vision.md)")
      ->group(kGroup);
  verb.add_flag("!--no-mmproj", mmproj.enabled, "Read no images, whatever lies beside the model")
      ->group(kGroup);
}

}  // namespace

void add_engine_flags(CLI::App& verb, EngineArgs& args) {
  add_image_flags(verb, args);
  constexpr const char* kGroup = "Execution";
  verb.add_option("--dtype", args.dtype,
                  "auto (the checkpoint's), float32, bfloat16 or float16; quantized weights are "
                  "multiplied by activations in bfloat16 with auto and bfloat16, else in float32")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--threads", args.num_threads,
                  "Compute threads; 0: one per physical core, within the CPU quota")
      ->check(in_range(0, 1024))
      ->group(kGroup);
  add_parallel_flags(verb, args);
  verb.add_flag("--pin-threads", args.pin_threads,
                "Keep each compute thread on one core: only where no other program runs on them")
      ->group(kGroup);
  verb.add_option("--device", args.device,
                  "cpu, cuda, or auto (a GPU if there is one that can run the model)")
      ->check(one_of({"cpu", "cuda", "auto"}))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--deterministic,!--no-deterministic", args.deterministic,
                "GPU: answers that do not depend on the batch, bit for bit (on; a CPU always does)")
      ->group(kGroup);
  verb.add_flag("--async-scheduling,!--no-async-scheduling", args.engine.scheduler.async_scheduling,
                "On a GPU: plan and queue the next step while one runs (on)")
      ->group(kGroup);
  verb.add_option(
          "--cudagraph-mode", args.cudagraph_mode,
          "GPU: which steps run as captured graphs: none; piecewise, all small ones but for "
          "their attention; full, whole those in which every request brings one token")
      ->check(one_of({"none", "piecewise", "full"}))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--enforce-eager", args.enforce_eager, "GPU: --cudagraph-mode none")->group(kGroup);
  verb.add_flag("--programmatic-launch,!--no-programmatic-launch", args.programmatic_launch,
                "GPU: kernels begin while the one before them ends (on)")
      ->group(kGroup);
  verb.add_flag(
          "--activation-int8", args.activation_int8,
          "CPU: round activations to int8, group by group, before weights of q8_0, q4_0, q4_k "
          "and other integers multiply them; `quire quantize MODEL --activation-int8` says what "
          "that "
          "costs")
      ->group(kGroup);
  verb.add_option("--isa", args.isa,
                  "auto (the best here), portable, avx2, avx512 or amx; avx2-core, avx512-core, "
                  "avx512-vnni: without later additions")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--speculative-config", args.speculative_config,
          "Draft tokens and verify several in one step: answers are the same, sooner. JSON: "
          "{\"method\":\"suffix\"}, which is what models on a CPU get whose layers keep no states; "
          "ngram; draft_model, medusa, eagle or eagle3 with a model; mtp; self, a copy of "
          "the model with 4 bits or its first num_hidden_layers; and num_speculative_tokens. "
          "none: no drafts")
      ->group(kGroup);
  add_roofline_flags(verb, args);
  verb.add_option(
          "--shape-weights", args.shape_weights,
          "With --shape: auto (as --dtype), int8, int8-weights, int4-g32, int4-g128, fp8 or "
          "a GGUF type such as q4_k")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--cache-dir", args.weight_cache_dir,
          "Folder for packed weights, so that later starts map them, and for a GPU's measured "
          "algorithms; safe to delete")
      ->group(kGroup);
  add_memory_flags(verb, args);
  add_scheduler_flags(verb, args.engine.scheduler, &args.device);
}

SamplingFlags::SamplingFlags(CLI::App& verb) {
  constexpr const char* kGroup = "Sampling";
  verb.add_option("--max-tokens", max_tokens_, "Most tokens to generate")
      ->check(at_least(1))
      ->group(kGroup);
  verb.add_option("--temperature", temperature_, "0: always the likeliest token")
      ->check(between(0.0, 2.0))
      ->group(kGroup);
  verb.add_option("--top-p", top_p_, "Sample from the likeliest tokens that sum to this")
      ->check(between(0.0, 1.0))
      ->group(kGroup);
  verb.add_option("--top-k", top_k_, "Sample from this many tokens; 0: all")->group(kGroup);
  verb.add_option("--min-p", min_p_,
                  "Leave out tokens less likely than this share of the likeliest")
      ->check(between(0.0, 1.0))
      ->group(kGroup);
  verb.add_option("--repetition-penalty", repetition_penalty_, "Above 1: repeat less")
      ->check(above_zero())
      ->group(kGroup);
  verb.add_option("--seed", seed_, "Same seed, same answer; random when not given")->group(kGroup);
  verb.add_option("--stop", stop_, "Stop at this text; may be given several times")->group(kGroup);
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
                "Show progress on standard error even where that is no terminal");
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
