#include "quire/sim/deployment_flags.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/text_fields.h"
#include "exec/memory/free_memory.h"
#include "facade/model_shape_file.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/roofline/table_files.h"
#include "roofline/hardware/device_links.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxJsonBytes = size_t{16} << 20;

void add_cache_flags(CLI::App& verb, EngineOptions& engine) {
  constexpr const char* kGroup = "KV cache, as in quire serve";
  verb.add_option("--max-model-len", engine.scheduler.max_model_len,
                  "Largest number of prompt and output tokens of one request; 0: as many as the "
                  "model allows, or as fit into memory")
      ->check(at_least(0))
      ->group(kGroup);
  verb.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
                engine.kv.enable_prefix_caching,
                "Reuse the KV of prompts with a common prefix (default: on)")
      ->group(kGroup);
  verb.add_option("--num-gpu-blocks-override", engine.num_blocks,
                  "Number of KV blocks; default: as many as the memory allows")
      ->check(in_range(2, 1 << 30))
      ->group(kGroup);
}

// Sets `into` to the format called `name` when a name is given.
Status set_format(const std::string& name, const char* flag, NumberFormat& into) {
  if (name.empty()) return {};
  const std::optional<NumberFormat> format = parse_number_format(name);
  if (!format) {
    return invalid_argument("{}: expected a format such as bfloat16, fp8, int8 or int4, got '{}'",
                            flag, name);
  }
  into = *format;
  return {};
}

Status set_preset(const DeploymentFlags& flags, sim::PoolOptions& pool) {
  if (flags.preset.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(const sim::EnginePreset preset, sim::find_engine_preset(flags.preset));
  sim::set_pool(preset, flags.chosen, pool);
  return {};
}

}  // namespace

void add_draft_flags(CLI::App& verb, DeploymentFlags& flags) {
  verb.add_option("--draft-acceptance", flags.draft_acceptance,
                  "Probability that a draft is accepted if the earlier ones were")
      ->check(between(0, 1))
      ->capture_default_str()
      ->group("Scheduling");
  verb.add_option("--draft-model", flags.draft_model,
                  "Draft model, given like MODEL; without it, drafts only cost their rows in the "
                  "step, as text-based drafters do")
      ->group("Scheduling");
}

namespace {

constexpr const char* kMachines = "Model and machines";

void add_machine_flags(CLI::App& verb, DeploymentFlags& flags) {
  verb.add_option("MODEL", flags.model,
                  "Folder with a config.json, that file, a .gguf file or a step log")
      ->required();
  verb.add_option("--hardware", flags.hardware,
                  "Devices: their names (quire roofline --help lists some) or .json files")
      ->delimiter(',')
      ->capture_default_str()
      ->group(kMachines);
  verb.add_option("--engine", flags.preset,
                  "Engine to imitate: its host times, and its defaults for settings that are not "
                  "given. One of: " +
                      sim::engine_preset_names())
      ->check([](const std::string& name) {
        const auto preset = sim::find_engine_preset(name);
        return preset.ok() ? std::string() : preset.status().message();
      })
      ->group(kMachines);
  verb.add_option("--device-link", flags.device_link,
                  "How the devices of a node are connected: pcie (peer to peer) or host (through "
                  "the host's memory); default: as the hardware file says")
      ->group(kMachines);
  verb.add_option("--price-per-hour", flags.price_per_hour,
                  "Price in dollars per device and hour; default: the hardware file's")
      ->check(above_zero())
      ->group(kMachines);
}

void add_memory_flags(CLI::App& verb, DeploymentFlags& flags) {
  constexpr const char* kGroup = kMachines;
  verb.add_option("--block-size", flags.block_size, "Tokens per KV block")
      ->check(in_range(1, 1024))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--merge-blocks,!--no-merge-blocks", flags.merge_blocks,
                "Track larger blocks for long prompts; this is several times faster, and figures "
                "change by less than 1 % (default: on)")
      ->group(kGroup);
  verb.add_option("--mamba-block-size", flags.state_block_size,
                  "Tokens between two snapshots of a model whose layers keep states")
      ->check(in_range(16, 1 << 20))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--memory-utilization,--gpu-memory-utilization", flags.memory_utilization,
                  "Share of device memory to use; default: the hardware file's")
      ->check(between(0.01, 1.0))
      ->group(kGroup);
  verb.add_option("--kv-offload-gib", flags.offload_gib,
                  "Host memory in GiB per replica for evicted KV; 0: none")
      ->check(between(0, 1e6))
      ->group(kGroup);
}

void add_fleet_flags(CLI::App& verb, DeploymentFlags& flags) {
  verb.add_option("--routing", flags.routing,
                  "How the router chooses a replica: " + routing_names())
      ->capture_default_str()
      ->group("Fleet");
  verb.add_option("--router-stale-ms", flags.stale_ms,
                  "Interval in milliseconds at which the router reads the loads")
      ->check(milliseconds())
      ->group("Fleet");
  verb.add_flag("--router-remembers", flags.router_remembers,
                "The router estimates the content of the caches from the requests that it sent, as "
                "quire route does, instead of reading the caches")
      ->group("Fleet");
  verb.add_option("--goodput", flags.goodput,
                  "Limits in milliseconds that a good request meets: ttft:MS tpot:MS e2el:MS")
      ->delimiter(',')
      ->group("SLOs");
  verb.add_option("--slo", flags.slo,
                  "Limits that statistics of the run must meet, as METRIC:STATISTIC:MS, such as "
                  "ttft:p90:800 tpot:p50:30. METRIC is ttft, tpot, itl or e2el; STATISTIC is mean, "
                  "p50, p90, p95 or p99")
      ->delimiter(',')
      ->group("SLOs");
}

}  // namespace

void add_deployment_flags(CLI::App& verb, DeploymentFlags& flags) {
  flags.engine.scheduler.max_num_batched_tokens = 8192;
  flags.engine.scheduler.async_scheduling = true;
  flags.engine.scheduler.max_num_queued_reqs = 1 << 24;
  flags.engine.scheduler.max_num_queued_tokens = int64_t{1} << 50;
  constexpr const char* kGroup = kMachines;
  add_machine_flags(verb, flags);
  verb.add_option("--dtype", flags.dtype,
                  "Type of the weights, such as bfloat16 or fp8; default: as config.json says")
      ->group(kGroup);
  verb.add_option("--kv-cache-dtype", flags.kv_cache_dtype,
                  "Type of the KV cache, such as bfloat16 or fp8; default: as the model has it")
      ->group(kGroup);
  verb.add_option("--fidelity", flags.fidelity,
                  "How times are predicted: bound (perfect kernels, no overhead), analytic (fitted "
                  "formulas), table (operators measured in --tables) or auto (table if there are "
                  "tables, else analytic)")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--tables", flags.tables,
                  "CSV files with measured operator times, or folders with such files, for "
                  "--fidelity table; default: the hardware file's table_path")
      ->delimiter(',')
      ->group(kGroup);
  verb.add_option("--routing-skew", flags.routing_skew,
                  "For models with experts: exponent of the power law by which tokens choose "
                  "experts; 0: uniform")
      ->check(between(0, 4))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--rule", flags.rule,
                  "How the times of prompt and decode work in one step are combined: sum, max, "
                  "max+lambda*min or marginal; default: the hardware file's")
      ->group(kGroup);
  add_memory_flags(verb, flags);
  verb.add_option("--lora-rank", flags.lora_rank,
                  "Rank of the adapters; default: 16 with --num-loras")
      ->check(in_range(1, 1024))
      ->group(kGroup);
  verb.add_option("--max-loras", flags.engine.scheduler.max_loras,
                  "Largest number of different adapters in one step; 0: no limit")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kGroup);
  add_fleet_flags(verb, flags);
  verb.add_option("--seed", flags.seed,
                  "Seed of all random numbers; the same seed gives the same run")
      ->capture_default_str();
  add_cache_flags(verb, flags.engine);
  add_scheduler_flags(verb, flags.engine.scheduler, nullptr);
  verb.add_flag("--async-scheduling,!--no-async-scheduling",
                flags.engine.scheduler.async_scheduling,
                "On GPUs without --pp: plan and queue the next step while one runs (default: on)")
      ->group("Scheduling");
}

void note_chosen(const CLI::App& verb, DeploymentFlags& flags) {
  flags.chosen = {.max_num_seqs = verb.count("--max-num-seqs") > 0,
                  .max_num_batched_tokens = verb.count("--max-num-batched-tokens") > 0,
                  .async_scheduling = verb.count("--async-scheduling") > 0,
                  .memory_utilisation = verb.count("--memory-utilization") > 0,
                  .block_size = verb.count("--block-size") > 0};
}

namespace {

Result<sim::FigureLimit> figure_limit(const std::string& term) {
  const std::vector<std::string_view> parts = split(term, ':');
  constexpr std::string_view kMetrics[] = {"ttft", "tpot", "itl", "e2el"};
  constexpr std::string_view kStatistics[] = {"mean", "p50", "p90", "p95", "p99"};
  if (parts.size() == 3) {
    const auto* const metric = std::find(std::begin(kMetrics), std::end(kMetrics), parts[0]);
    const auto* const statistic =
        std::find(std::begin(kStatistics), std::end(kStatistics), parts[1]);
    const auto ms = parse_number(parts[2], 1e-6, 1e9, "--slo");
    if (metric != std::end(kMetrics) && statistic != std::end(kStatistics) && ms.ok()) {
      return sim::FigureLimit{.metric = static_cast<sim::Metric>(metric - kMetrics),
                              .statistic = static_cast<sim::Statistic>(statistic - kStatistics),
                              .ms = *ms};
    }
  }
  return invalid_argument(
      "--slo: expected ttft, tpot, itl or e2el, then mean, p50, p90, p95 or p99, then "
      "milliseconds, such as ttft:p90:800, got '{}'",
      term);
}

}  // namespace

Result<sim::SloLimits> slo_limits(const DeploymentFlags& flags) {
  sim::SloLimits limits;
  for (const std::string& term : flags.slo) {
    QUIRE_ASSIGN_OR_RETURN(const sim::FigureLimit limit, figure_limit(term));
    limits.figures.push_back(limit);
  }
  for (const std::string& term : flags.goodput) {
    const size_t colon = std::min(term.find(':'), term.size());
    const std::string name = term.substr(0, colon);
    std::optional<double>* limit = name == "ttft"   ? &limits.ttft_ms
                                   : name == "tpot" ? &limits.tpot_ms
                                   : name == "e2el" ? &limits.e2e_ms
                                                    : nullptr;
    const auto ms = parse_number(std::string_view(term).substr(std::min(colon + 1, term.size())),
                                 1e-6, 1e9, "--goodput");
    if (limit == nullptr || !ms.ok()) {
      return invalid_argument("--goodput: expected ttft:MS, tpot:MS or e2el:MS, got '{}'", term);
    }
    *limit = *ms;
  }
  return limits;
}

Result<Hardware> hardware_of(const std::string& name, const DeploymentFlags& flags) {
  Result<Hardware> hardware = [&]() -> Result<Hardware> {
    if (!name.ends_with(".json")) return find_hardware(name);
    QUIRE_ASSIGN_OR_RETURN(const std::string text, read_text(name, kMaxJsonBytes));
    return parse_hardware(text, name);
  }();
  if (!hardware.ok()) return hardware;
  if (!flags.rule.empty()) {
    QUIRE_ASSIGN_OR_RETURN(hardware->rule, parse_combination_rule(flags.rule));
  }
  if (!flags.device_link.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const DeviceLink link, parse_device_link(flags.device_link));
    QUIRE_RETURN_IF_ERROR(set_device_link(link, *hardware));
  }
  if (flags.price_per_hour > 0) {
    hardware->price_per_hour = flags.price_per_hour;
    hardware->price_source = "--price-per-hour";
  }
  if (!flags.preset.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const sim::EnginePreset preset, sim::find_engine_preset(flags.preset));
    sim::set_host(preset, *hardware);
  }
  return hardware;
}

Result<ModelShape> model_of(const DeploymentFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(ModelShape model, read_model_shape(flags.model));
  QUIRE_RETURN_IF_ERROR(set_format(flags.dtype, "--dtype", model.weights));
  QUIRE_RETURN_IF_ERROR(set_format(flags.dtype, "--dtype", model.expert_weights));
  QUIRE_RETURN_IF_ERROR(set_format(flags.kv_cache_dtype, "--kv-cache-dtype", model.kv));
  return model;
}

Result<Fidelity> fidelity_of(const DeploymentFlags& flags, const Hardware& hardware) {
  return roofline::fidelity_of(flags.fidelity, flags.tables, hardware);
}

Result<std::shared_ptr<const OperatorTables>> tables_of(const DeploymentFlags& flags,
                                                        const Hardware& hardware) {
  QUIRE_ASSIGN_OR_RETURN(const Fidelity fidelity, fidelity_of(flags, hardware));
  if (fidelity != Fidelity::kTable) return std::shared_ptr<const OperatorTables>();
  return roofline::load_tables(flags.tables, hardware);
}

int32_t lora_rank_of(const DeploymentFlags& flags, int32_t num_loras) {
  constexpr int32_t kLoraRank = 16;
  return flags.lora_rank == 0 && num_loras > 0 ? kLoraRank : flags.lora_rank;
}

int64_t simulation_memory_bytes() { return free_memory_bytes() / 4 * 3; }

Result<RouterOptions> router_of(const DeploymentFlags& flags) {
  RouterOptions router;
  QUIRE_ASSIGN_OR_RETURN(router.routing, parse_routing(flags.routing));
  router.stale_ns = static_cast<int64_t>(flags.stale_ms * 1e6);
  router.remembers_prefixes = flags.router_remembers;
  router.seed = flags.seed;
  return router;
}

Result<sim::PoolOptions> pool_of(const DeploymentFlags& flags) {
  sim::PoolOptions pool;
  QUIRE_ASSIGN_OR_RETURN(pool.model, model_of(flags));
  pool.cost.routing_skew = flags.routing_skew;
  pool.parallelism = {.tp = flags.tp, .pp = flags.pp, .ep = flags.ep, .dp = flags.dp};
  pool.engine = flags.engine;
  SchedulerConfig& scheduler = pool.engine.scheduler;
  scheduler.max_num_seqs = std::min(scheduler.max_num_seqs, scheduler.max_num_batched_tokens);
  pool.block_size = flags.block_size;
  pool.state_block_size = flags.state_block_size;
  pool.memory_utilisation = flags.memory_utilization;
  pool.draft_acceptance = flags.draft_acceptance;
  if (!flags.draft_model.empty()) {
    QUIRE_ASSIGN_OR_RETURN(pool.draft_model, read_model_shape(flags.draft_model));
  }
  pool.offload_bytes = flags.offload_gib * static_cast<double>(int64_t{1} << 30);
  QUIRE_RETURN_IF_ERROR(set_preset(flags, pool));
  return pool;
}

Result<sim::PoolOptions> parse_pool(const std::string& text, const sim::PoolOptions& base,
                                    const DeploymentFlags& flags) {
  sim::PoolOptions pool = base;
  std::string hardware = flags.hardware.front();
  for (const std::string_view item : split(text, ',')) {
    const size_t equals = std::min(item.find('='), item.size());
    const std::string key(item.substr(0, equals));
    const std::string value(item.substr(std::min(equals + 1, item.size())));
    int32_t* number = key == "replicas" ? &pool.num_replicas
                      : key == "tp"     ? &pool.parallelism.tp
                      : key == "pp"     ? &pool.parallelism.pp
                      : key == "ep"     ? &pool.parallelism.ep
                      : key == "dp"     ? &pool.parallelism.dp
                                        : nullptr;
    if (number != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(const int64_t n, parse_integer(value, 1, 1 << 20, "--pool: " + key));
      *number = static_cast<int32_t>(n);
    } else if (key == "hardware" && !value.empty()) {
      hardware = value;
    } else if (key == "role" && (value == "both" || value == "prefill" || value == "decode")) {
      pool.role = value == "both"      ? sim::Role::kBoth
                  : value == "prefill" ? sim::Role::kPrefill
                                       : sim::Role::kDecode;
    } else {
      return invalid_argument(
          "--pool: expected hardware=NAME,replicas=N,tp=N,pp=N,ep=N,dp=N,role=both|prefill|decode, "
          "got "
          "'{}'",
          item);
    }
  }
  pool.name =
      hardware + (pool.role == sim::Role::kBoth ? "" : "-" + std::string(to_string(pool.role)));
  QUIRE_ASSIGN_OR_RETURN(pool.hardware, hardware_of(hardware, flags));
  QUIRE_ASSIGN_OR_RETURN(pool.cost.fidelity, fidelity_of(flags, pool.hardware));
  QUIRE_ASSIGN_OR_RETURN(pool.tables, tables_of(flags, pool.hardware));
  QUIRE_RETURN_IF_ERROR(set_preset(flags, pool));
  return pool;
}

}  // namespace quire::cli
