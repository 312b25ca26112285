// A device as cost sees it: datasheet limits, and the constants of how close real kernels come.
//
// Descriptions are small JSON files (assets/hardware/, docs/roofline.md says what each field
// means); those that ship are built into the program, `quire roofline calibrate` and `probe` write
// others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/number_format.h"

namespace quire {

// t = (tc^p + tm^p)^(1/p) + t0, tc = flops / (compute_share * peak),
// tm = bytes / (memory_share * bandwidth).
struct GemmModel {
  double compute_share = 0.75;
  double memory_share = 0.82;
  double launch_us = 4;
  double exponent = 3.4;  // p; large values are the hard maximum
};

// Prompt tokens: t = Σ flops / (peak * mfu(s)) + bytes / (memory_share * bandwidth) + t0,
// mfu(s) = mfu_max * s / (s + half_tokens) of the keys s that a query ends with.
struct PrefillAttentionModel {
  double mfu_max = 0.60;
  double half_tokens = 1150;
  double memory_share = 0.75;
  double launch_us = 12;
};

// One token per request: t = KV bytes / (share * bandwidth) + t0, the share rising with the bytes
// that there are to read: share = max_share * b / (b + half_bytes).
struct DecodeAttentionModel {
  double max_share = 0.85;
  double half_bytes = 8e6;
  double launch_us = 8;
  double fp8_share = 0.85;  // of max_share, where the cache is FP8
};

// Norms, rope, activation, residuals, cache writes, sampling.
struct ElementwiseModel {
  double memory_share = 0.8;
  double launch_us = 1.8;  // per kernel, inside a graph
  double kernels_per_layer = 5;
};

// alpha + traffic / bandwidth, by number of devices.
struct CollectiveModel {
  double alpha_us = 5;               // of two devices
  double alpha_per_device_us = 0.3;  // for each further one
  double bytes_per_s = 0;            // per direction; 0: the link's
  double share = 0.75;               // of the link that is reached
};

// What the program around the model costs.
struct HostModel {
  double step_us = 400;          // c0, every step
  double request_us = 5;         // c1, per scheduled request and step
  double token_us = 0;           // per scheduled token
  double layer_launch_us = 0;    // c_launch: floor per layer for steps outside the graph sizes
  double admission_us = 12'000;  // once per request, before it is queued: API, template, tokenizer
  std::vector<int32_t> graph_sizes;  // tokens; a step is padded to the next one. Empty: no padding
};

struct Link {
  double bytes_per_s = 0;  // per direction and device
  double latency_us = 10;
};

// How the times of the prompt part and the decode part of one step combine.
enum class CombinationRule : uint8_t {
  kSum,
  kMax,
  kMaxPlusMin,  // max + lambda * min
  kMarginal,    // prefill(all) + [decode(B, context) - decode(B, minimal context)]
};
std::string_view to_string(CombinationRule rule);
Result<CombinationRule> parse_combination_rule(std::string_view name);

// Where the figures come from. Free text but for the errors.
struct Provenance {
  std::string source;    // "datasheet", "calibrated from steps.jsonl" …
  std::string date;      // ISO 8601
  std::string device;    // as the device names itself
  std::string versions;  // of the engine, kernels, drivers
  int64_t num_samples = 0;
  double train_mape = 0;  // percent
  double test_mape = 0;
};

struct Hardware {
  std::string name;
  std::string description;
  bool cpu = false;

  // Limits.
  std::array<double, kNumMathTypes> peak_flops{};  // dense FLOP/s by MathType; 0: not supported
  double memory_bytes_per_s = 0;
  double memory_bytes = 0;
  Link device_link;  // between the devices of one node
  Link node_link;    // between nodes
  Link host_link;    // device memory to host memory
  int32_t devices_per_node = 8;
  double price_per_hour = 0;  // dollars; 0: unknown
  double watts = 0;

  // How close kernels come.
  std::array<GemmModel, kNumMathTypes> gemm;
  PrefillAttentionModel prefill_attention;
  DecodeAttentionModel decode_attention;
  ElementwiseModel elementwise;
  CollectiveModel collective;
  HostModel host;

  CombinationRule rule = CombinationRule::kSum;
  double lambda = 1;  // of kMaxPlusMin

  // Memory that is not for KV blocks (memory_model.h).
  double memory_utilisation = 0.90;
  double reserved_bytes = 0;              // context, graphs, libraries
  double communication_buffer_bytes = 0;  // with tp > 1

  std::string table_path;  // directory of operator tables for Fidelity::kTable; may be empty
  Provenance provenance;

  // Of a type without a unit of its own: that of the next wider one (fp8 on A100 runs as bf16).
  double peak(MathType math) const;
  MathType effective_math(MathType math) const;
  Status validate() const;
};

// Hostile until checked. `where` begins messages, e.g. the file's name.
Result<Hardware> parse_hardware(std::string_view json, std::string_view where);
std::string to_json(const Hardware& hardware);

// Those built in: "h100-sxm", "h100-pcie", "h200-sxm", "h20", "b200", "a100-sxm", "a40", "l40s",
// "rtx-4090", "rtx-pro-6000", "cpu-avx2", "cpu-avx512" ….
std::vector<std::string> known_hardware();
// A known name (case and punctuation ignored), or nullopt-like kNotFound with the list of names.
Result<Hardware> find_hardware(std::string_view name);
// Documented defaults for a device of which only limits are known.
Hardware default_hardware(std::string_view name);

}  // namespace quire
