// Flags that describe what is simulated: model, machines, engine settings.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/fleet/deployment.h"
#include "sim/report/summary.h"

namespace quire::cli {

struct DeploymentFlags {
  std::string model;
  std::string dtype, kv_cache_dtype;
  std::vector<std::string> hardware = {"h100-sxm"};
  double price_per_hour = 0;
  std::string fidelity = "analytic";
  std::vector<std::string> tables;
  int32_t tp = 1, pp = 1, ep = 1;
  int32_t block_size = 16;
  double memory_utilization = 0;
  double offload_gib = 0;
  EngineOptions engine;
  std::string routing = "least-requests";
  double stale_ms = 0;
  std::vector<std::string> goodput;
  uint64_t seed = 0;
};

// MODEL, formats, engine settings, routing, SLOs: what simulate and plan share.
void add_deployment_flags(CLI::App& verb, DeploymentFlags& flags);

// "ttft:MS", "tpot:MS", "e2el:MS".
Result<sim::SloLimits> slo_limits(const std::vector<std::string>& terms);
// A description by name or in a .json file, with the price given.
Result<Hardware> hardware_of(const std::string& name, double price_per_hour);
Result<ModelShape> model_of(const DeploymentFlags& flags);
// The tables of --fidelity table; null with another.
Result<std::shared_ptr<const OperatorTables>> tables_of(const DeploymentFlags& flags,
                                                        const Hardware& hardware);
// Of this machine, for the books of a simulation.
int64_t simulation_memory_bytes();
Result<sim::RouterOptions> router_of(const DeploymentFlags& flags);
// Everything but hardware and counts.
Result<sim::PoolOptions> pool_of(const DeploymentFlags& flags);

// "hardware=h100-sxm,replicas=2,tp=1,pp=1,ep=1,role=both": a pool of its own; what is left out is
// as the flags say.
Result<sim::PoolOptions> parse_pool(const std::string& text, const sim::PoolOptions& base,
                                    const DeploymentFlags& flags);

}  // namespace quire::cli
