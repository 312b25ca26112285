// Hardware is a device as cost sees it: datasheet limits, and the constants of how close real
// kernels come.
//
// Descriptions are small JSON files (assets/hardware/; docs/roofline.md says what each field
// means). Those that ship are built into the program; `quire roofline calibrate` and `probe` write
// others.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/hardware/number_format.h"

namespace quire {

// A SharePoint is the share of the bound that a matrix product of so many rows reaches. Between two
// points its inverse is interpolated over log(rows).
struct SharePoint {
  double rows = 0;
  double share = 0;
};

// A matrix product takes t = (tc^p + tm^p)^(1/p) + t0, with tc = flops / (compute_share * peak) and
// tm = bytes / (memory_share * bandwidth). On devices whose num_units is known the compute side is
// cut into output tiles that run in waves over the units: tc = waves * (tile time + tile_us), each
// tile bound by its multiplications or by cache_bytes_per_s, and the best of a few tile sizes and K
// splits is taken. Kernels that multiply narrow numbers first quantize their activations: 3 bytes for
// each, at quantize_share of the bandwidth, and at least quantize_row_us for each row, however short.
// `shares` (calibrated) replaces all of it: t = bound / share(rows) + t0.
struct GemmModel {
  double compute_share = 0.75;
  double memory_share = 0.82;
  double launch_us = 4;
  double exponent = 3.4;
  double tile_us = 0.25;         // start and drain of one tile
  double cache_bytes_per_s = 0;  // of all units together; 0: ten times the memory's
  double split_traffic = 4.4;    // partial sums of a K split, times their float32 bytes
  double split_us = 1.5;         // the second pass of a K split
  double quantize_share = 0;     // of the bandwidth; 0: there is no such pass
  double quantize_row_us = 0;
  std::vector<SharePoint> shares;  // ascending rows; empty: the formula above
};

// Prompt tokens run as tiles of tile_rows queries (or fewer, down to min_tile_rows) of one head, or
// of the heads that share a KV head. A tile takes pairs * (2 (Dqk + Dv) / (compute_share * peak) +
// softmax_flops / peak) + tile_us. Tiles are spread over the units in waves, no shorter than the
// longest tile, and joined softly with bytes / (memory_share * bandwidth). launch_us comes on top,
// and what writing the new tokens' keys and values into the cache takes: cache_write times their
// bytes. An exponent of 1 adds the two sides; a memory_share above 1 says that caches serve the
// keys, or that multiplications hide their reads.
struct PrefillAttentionModel {
  double compute_share = 0.80;
  int32_t tile_rows = 128;
  int32_t min_tile_rows = 16;
  bool packs_heads = true;     // the query heads of one KV head share tiles
  double softmax_flops = 190;  // per query, key and head, in multiply-add time at the peak
  double tile_us = 2.5;
  double memory_share = 0.5;
  double exponent = 1.9;
  double launch_us = 11;
  double cache_write = 0;
};

// One token per request takes KV bytes / (memory_share * bandwidth), or longer where there are too
// few tiles to keep every unit busy (a unit alone reaches unit_share of its part of the bandwidth).
// That is joined softly with the multiplications of padded query tiles; request_us comes on top for
// each wave of (request, KV head) pairs, combine_us where keys are split between units, and
// launch_us.
struct DecodeAttentionModel {
  double memory_share = 0.85;
  double unit_share = 1.05;
  double compute_share = 0.5;
  double exponent = 4;
  double request_us = 3;
  double combine_us = 0.4;
  double launch_us = 10;
};

// Routed experts have constants by the format of their weights. launch_us is for sorting rows by
// expert and the other small kernels around the products, expert_us for each expert that has rows.
// The products are their multiplications over row tiles padded expert by expert, joined softly with
// the weights of the distinct experts. What goes between products row by row through memory
// (gather, activation, sum) passes over everybody's rows on devices that hold a part of the
// experts, and telling whose rows they are takes foreign_us.
struct ExpertsModel {
  double launch_us = 35;
  double expert_us = 0.085;
  double compute_share = 0.66;
  double memory_share = 0.89;
  double exponent = 2.6;
  double row_share = 0.7;  // of the bandwidth
  double foreign_share = 0.4;
  double foreign_us = 0;
};

// These are norms, rope, activation, residuals, cache writes and sampling.
struct ElementwiseModel {
  double memory_share = 0.8;
  double launch_us = 1.8;  // per kernel, inside a graph
  double kernels_per_layer = 5;
};

// A collective takes alpha + ramp + traffic / bandwidth. Devices pass messages on in rounds (an
// all-reduce in two, an all-gather in one, an all-to-all sends all at once), each of which costs
// alpha_per_device_us for every device beyond two. ramp_us goes with the square root of the traffic:
// messages are cut into pieces that follow each other, and protocols change with their size.
struct CollectiveModel {
  double alpha_us = 5;  // of two devices
  double alpha_per_device_us = 0.3;
  double ramp_us = 0;      // of 1 MB
  double bytes_per_s = 0;  // per direction; 0: the link's
  double share = 0.75;     // of the link that is reached
};

// The program around the model costs this; the defaults are those of a GPU.
struct HostModel {
  double step_us = 400;         // c0, every step
  double request_us = 5;        // c1, per scheduled request and step
  double token_us = 0;          // per scheduled token
  double layer_launch_us = 0;   // c_launch: floor per layer for steps outside the graph sizes
  double admission_us = 7'000;  // once per request, before it is queued: API, template, tokenizer
  std::vector<int32_t> graph_sizes;  // tokens; a step is padded to the next one. Empty: no padding
};

struct Link {
  double bytes_per_s = 0;  // per direction and device
  double latency_us = 10;
};

// A Bridge joins two devices (NVLink bridges of PCIe cards); more of them talk over device_link.
struct Bridge {
  Link link;
  CollectiveModel collective;
};

// The rule says how the times of the prompt part and the decode part of one step combine.
enum class CombinationRule : uint8_t {
  kSum,
  kMax,
  kMaxPlusMin,  // max + lambda * min
  kMarginal,    // prefill(all) + [decode(B, context) - decode(B, minimal context)]
};
std::string_view to_string(CombinationRule rule);
Result<CombinationRule> parse_combination_rule(std::string_view name);

// Provenance says where the figures come from, in free text except for the errors.
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

  int32_t num_units = 0;                           // SMs; 0: kernels are not cut into waves (CPUs)
  std::array<double, kNumMathTypes> peak_flops{};  // dense FLOP/s by MathType; 0: not supported
  double memory_bytes_per_s = 0;
  double memory_bytes = 0;
  // A model whose weights fit into cache_bytes reads them at cache_bytes_per_s, and activations
  // that fit cost no memory traffic. With 0 everything goes through memory.
  double cache_bytes = 0;
  double cache_bytes_per_s = 0;
  Link device_link;  // between the devices of one node
  std::optional<Bridge> bridge;
  Link node_link;  // between nodes
  Link host_link;  // device memory to host memory
  int32_t devices_per_node = 8;
  double price_per_hour = 0;  // dollars; 0: unknown
  std::string price_source;   // who asks that price, and when
  double watts = 0;

  // These say how close kernels come to the limits.
  // Kinds that are not there take after one of the same math (gemm_model(), experts_model()).
  std::map<KernelKind, GemmModel> gemm;
  std::map<KernelKind, ExpertsModel> experts;
  // These go by the format of the cache, because FP8 caches have kernels of their own.
  PrefillAttentionModel prefill_attention;
  PrefillAttentionModel prefill_attention_fp8;
  DecodeAttentionModel decode_attention;
  DecodeAttentionModel decode_attention_fp8;
  ElementwiseModel elementwise;
  CollectiveModel collective;  // of a library
  // Servers have a kernel of their own for small all-reduces in a node; the faster of the two runs.
  std::optional<CollectiveModel> small_all_reduce;
  HostModel host;

  CombinationRule rule = CombinationRule::kSum;
  double lambda = 1;  // of kMaxPlusMin

  // This memory is not for KV blocks (memory_model.h).
  double memory_utilisation = 0.90;
  double reserved_bytes = 0;              // context, graphs, libraries
  double communication_buffer_bytes = 0;  // with tp > 1

  std::string table_path;  // directory of operator tables for Fidelity::kTable; may be empty
  Provenance provenance;

  // A type without a unit of its own has the peak of the next wider one (fp8 on A100 runs as bf16).
  double peak(MathType math) const;
  const PrefillAttentionModel& prefill_model(const NumberFormat& kv) const;
  const DecodeAttentionModel& decode_model(const NumberFormat& kv) const;
  GemmModel gemm_model(const NumberFormat& weights) const;
  ExpertsModel experts_model(const NumberFormat& weights) const;
  MathType effective_math(MathType math) const;
  Status validate() const;
};

// The text is hostile until checked. `where` begins messages, such as the file's name.
Result<Hardware> parse_hardware(std::string_view json, std::string_view where);
std::string to_json(const Hardware& hardware);

// Returns the names of those built in: "h100-sxm", "h100-pcie", "h200-sxm", "h20", "b200",
// "a100-sxm", "a40", "l40s", "rtx-4090", "rtx-pro-6000", "cpu-avx2", "cpu-avx512" ….
std::vector<std::string> known_hardware();
// Finds a known name (case and punctuation do not count); kNotFound lists the names.
Result<Hardware> find_hardware(std::string_view name);

}  // namespace quire
