// These flags describe the simulated deployment: model, machines, engine settings.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/fleet/deployment.h"
#include "sim/fleet/engine_preset.h"
#include "sim/report/summary.h"

namespace quire::cli {

struct DeploymentFlags {
  std::string model;
  std::string dtype, kv_cache_dtype;
  std::vector<std::string> hardware = {"h100-sxm"};
  std::string preset;  // of --engine; empty: the hardware file's host times, our defaults
  sim::SetByUser chosen;
  double price_per_hour = 0;
  std::string device_link;
  std::string fidelity = "analytic";
  std::vector<std::string> tables;
  int32_t tp = 1, pp = 1, ep = 1, dp = 1;
  int32_t block_size = 16;
  int32_t state_block_size = 512;
  double memory_utilization = 0;
  double offload_gib = 0;
  double draft_acceptance = 0.7;
  std::string draft_model;
  int32_t lora_rank = 0;  // 0: kLoraRank where requests ask for adapters
  EngineOptions engine;
  std::string routing = "least-requests";
  double stale_ms = 0;
  bool router_remembers = false;
  std::vector<std::string> goodput, slo;
  double routing_skew = 1.01;
  bool merge_blocks = true;
  std::string rule;  // empty: the hardware file's
  uint64_t seed = 0;
};

// Adds MODEL and the flags for formats, engine settings, routing and SLOs, which simulate and plan
// share.
void add_deployment_flags(CLI::App& verb, DeploymentFlags& flags);
// Adds the flags that say how many drafts are accepted.
void add_draft_flags(CLI::App& verb, DeploymentFlags& flags);
// Records which settings the command line gave, because --engine leaves those alone.
void note_chosen(const CLI::App& verb, DeploymentFlags& flags);

// Reads --goodput and --slo.
Result<sim::SloLimits> slo_limits(const DeploymentFlags& flags);
// Returns the hardware with this name, or the one in this .json file, after setting what the flags
// give: the price, the host times and the rule of mixed steps.
Result<Hardware> hardware_of(const std::string& name, const DeploymentFlags& flags);
Result<ModelShape> model_of(const DeploymentFlags& flags);
// Returns the tables of --fidelity table, or those that --fidelity auto finds; null when there are
// none.
Result<std::shared_ptr<const OperatorTables>> tables_of(const DeploymentFlags& flags,
                                                        const Hardware& hardware);
// Returns the value of --fidelity, where auto means table when there are tables of this device.
Result<Fidelity> fidelity_of(const DeploymentFlags& flags, const Hardware& hardware);
// Returns how much of this machine's memory a simulation may use for its records.
int64_t simulation_memory_bytes();
Result<RouterOptions> router_of(const DeploymentFlags& flags);
// Returns the rank of the adapters that the workload's num_loras stand for; 0 when it has none.
int32_t lora_rank_of(const DeploymentFlags& flags, int32_t num_loras);
// Returns all options of a pool except hardware, fidelity and counts.
Result<sim::PoolOptions> pool_of(const DeploymentFlags& flags);

// Reads the text "hardware=h100-sxm,replicas=2,tp=1,pp=1,ep=1,role=both", which describes a pool.
// The flags give what the text leaves out.
Result<sim::PoolOptions> parse_pool(const std::string& text, const sim::PoolOptions& base,
                                    const DeploymentFlags& flags);

}  // namespace quire::cli
