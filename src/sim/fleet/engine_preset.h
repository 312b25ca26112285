// An EnginePreset describes another server in some version: the costs of its host code, and its
// defaults for settings that its operator leaves alone.
//
// A preset differs from Quire's scheduler in these settings alone. Versions have presets of their
// own because often only the host times change between them.
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
  std::optional<ServerMemory> memory;  // none means that memory is planned as by Quire
  int32_t block_size = 16;
  bool never_preempts = false;  // reserves KV for the longest output when a request starts
  BatchLimits large;            // on devices with at least 70 GiB, except the A100
  BatchLimits small;
};

// SetByUser says which of the settings the user chose; a preset does not change those.
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

// Sets the machine's host times to the preset's, unless the machine is a CPU.
void set_host(const EnginePreset& preset, Hardware& hardware);
// Applies the preset, its host times included, to a pool whose machine is known.
void set_pool(const EnginePreset& preset, const SetByUser& chosen, PoolOptions& pool);

}  // namespace quire::sim
