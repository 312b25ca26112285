// An EnginePreset is somebody's server in some version: what its host costs, and what it sets where
// its operator sets nothing.
//
// A server's scheduler is told apart from ours by these settings alone. Host times are constants of
// a version, since a new version often changes nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/fleet/deployment.h"

namespace quire::sim {

// BatchLimits are a server's defaults on a class of devices.
struct BatchLimits {
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
};

struct EnginePreset {
  std::string_view name;
  bool async_scheduling = true;
  double step_us = 0;       // c0 of HostModel, on a GPU
  double request_us = 0;    // c1
  double admission_us = 0;  // API and tokenizer
  double memory_utilisation = 0.9;
  std::optional<ServerMemory> memory;  // none: as Quire plans it
  int32_t block_size = 16;
  bool never_preempts = false;  // a place for the longest output is kept from the start
  BatchLimits large;            // on devices with at least 70 GiB, A100 aside
  BatchLimits small;
};

// SetByUser says which of the settings somebody chose; a preset leaves those alone.
struct SetByUser {
  bool max_num_seqs = false;
  bool max_num_batched_tokens = false;
  bool async_scheduling = false;
  bool memory_utilisation = false;
  bool block_size = false;
};

// Returns "vllm-0.12, vllm-0.15 …", as --help and errors show them.
std::string engine_preset_names();
// Finds a preset by its name; the error lists the names.
Result<EnginePreset> find_engine_preset(std::string_view name);

// Gives the machine the host times of the preset; a CPU keeps its own.
void set_host(const EnginePreset& preset, Hardware& hardware);
// Sets what the preset says about a pool whose machine is known, its host times included.
void set_pool(const EnginePreset& preset, const SetByUser& chosen, PoolOptions& pool);

}  // namespace quire::sim
