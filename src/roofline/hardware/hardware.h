// Hardware: a device for the cost model. It has the limits of the datasheet, and constants that say
// how close real kernels come to them.
//
// Descriptions are small JSON files (assets/hardware/; docs/roofline.md describes each field). Some
// are built into the program; `quire roofline calibrate` and `probe` write others.
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

// The share of the bound that a matrix product of `rows` rows reaches. Between two points its
// inverse is interpolated over log(rows).
struct SharePoint {
  double rows = 0;
  double share = 0;
};

// A matrix product takes t = (tc^p + tm^p)^(1/p) + t0, with tc = flops / (compute_share * peak) and
// tm = bytes / (memory_share * bandwidth). On devices with known num_units the compute side is cut
// into output tiles that run in waves over the units: tc = waves * (tile time + tile_us). Each tile
// is bound by its multiplications or by cache_bytes_per_s, and the best of a few tile sizes and K
// splits is used. Kernels that multiply narrow numbers first quantize their activations: this moves
// 3 bytes for each, at quantize_share of the bandwidth, and takes at least quantize_row_us for each
// row, however short. If `shares` is set (calibrated), it replaces all of that: t = bound /
// share(rows) + t0.
struct GemmModel {
  double compute_share = 0.75;
  double memory_share = 0.82;
  double launch_us = 4;
  double exponent = 3.4;
  double tile_us = 0.25;         // start and drain of one tile
  double cache_bytes_per_s = 0;  // of all units together; 0: ten times that of memory
  double split_traffic = 4.4;    // partial sums of a K split, times their float32 bytes
  double split_us = 1.5;         // the second pass of a K split
  double quantize_share = 0;     // of the bandwidth; 0: no such pass
  double quantize_row_us = 0;
  std::vector<SharePoint> shares;  // ascending rows; empty: the formula above
};

// Prompt tokens run as tiles of tile_rows queries (or fewer, down to min_tile_rows) of one head, or
// of the heads that share a KV head. A tile takes pairs * (2 (Dqk + Dv) / (compute_share * peak) +
// softmax_flops / peak) + tile_us. Tiles run in waves over the units, which take at least as long
// as the longest tile; a soft maximum combines this with bytes / (memory_share * bandwidth). Added
// to it are launch_us and the time to write the new tokens' keys and values into the cache, which
// is cache_write times that of their bytes. An exponent of 1 adds the two sides. A memory_share
// above 1 means that caches hold the keys, or that multiplications hide their reads.
struct PrefillAttentionModel {
  double compute_share = 0.80;
  int32_t tile_rows = 128;
  int32_t min_tile_rows = 16;
  bool packs_heads = true;     // tiles have the query heads of one KV head together
  double softmax_flops = 190;  // per query, key and head, in multiply-add time at the peak
  double tile_us = 2.5;
  double memory_share = 0.5;
  double exponent = 1.9;
  double launch_us = 11;
  double cache_write = 0;
};

// One token per request takes KV bytes / (memory_share * bandwidth), or longer if there are too few
// tiles to keep every unit busy (a single unit reaches unit_share of its part of the bandwidth). A
// soft maximum combines this with the multiplications of padded query tiles. Added to it are
// request_us for each wave of (request, KV head) pairs, combine_us if keys are split between units,
// and launch_us.
struct DecodeAttentionModel {
  double memory_share = 0.85;
  double unit_share = 1.05;
  double compute_share = 0.5;
  double exponent = 4;
  double request_us = 3;
  double combine_us = 0.4;
  double launch_us = 10;
};

// The constants of routed experts, by the format of their weights. launch_us is for sorting rows by
// expert and the other small kernels around the products, expert_us for each expert with rows. The
// products take the soft maximum of their multiplications, over row tiles padded for each expert,
// and of reading the weights of the distinct experts. On devices with a part of the experts, the
// data that goes between products row by row through memory (gather, activation, sum) is that of
// all devices' rows, and finding out whose rows they are takes foreign_us.
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

// Norms, rope, activation, residuals, cache writes and sampling.
struct ElementwiseModel {
  double memory_share = 0.8;
  double launch_us = 1.8;  // per kernel, inside a graph
  double kernels_per_layer = 5;
};

// A collective takes alpha + ramp + traffic / bandwidth. Devices pass messages on in rounds (an
// all-reduce in two, an all-gather in one; an all-to-all sends all messages at once), each of which
// takes alpha_per_device_us for every device beyond two. The ramp is ramp_us times the square root
// of the traffic in MB: messages are cut into pieces that follow each other, and protocols change
// with their size.
struct CollectiveModel {
  double alpha_us = 5;  // between two devices
  double alpha_per_device_us = 0.3;
  double ramp_us = 0;      // for 1 MB
  double bytes_per_s = 0;  // per direction; 0: that of the link
  double share = 0.75;     // of the link's bandwidth
};

// The costs of the program around the model; the defaults are those of a GPU.
struct HostModel {
  double step_us = 400;         // c0, every step
  double request_us = 5;        // c1, per scheduled request and step
  double token_us = 0;          // per scheduled token
  double layer_launch_us = 0;   // c_launch: least time per layer, for steps larger than any graph
  double admission_us = 7'000;  // once per request, before it is queued: API, template, tokenizer
  std::vector<int32_t> graph_sizes;  // tokens; a step is padded to the next size. Empty: no padding
};

struct Link {
  double bytes_per_s = 0;  // per direction and device
  double latency_us = 10;
};

// A link between two devices (NVLink bridges of PCIe cards); more devices communicate over
// device_link.
struct Bridge {
  Link link;
  CollectiveModel collective;
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

// Where the figures come from, as free text except for the errors.
struct Provenance {
  std::string source;    // "datasheet", "calibrated from steps.jsonl" …
  std::string date;      // ISO 8601
  std::string device;    // the device's own name
  std::string versions;  // of the engine, kernels, drivers
  int64_t num_samples = 0;
  double train_mape = 0;  // percent
  double test_mape = 0;
};

struct Hardware {
  std::string name;
  std::string description;
  bool cpu = false;

  int32_t num_units = 0;                           // SMs; 0: kernels do not run in waves (CPUs)
  std::array<double, kNumMathTypes> peak_flops{};  // dense FLOP/s by MathType; 0: not supported
  double memory_bytes_per_s = 0;
  double memory_bytes = 0;
  // A model whose weights fit into cache_bytes reads them at cache_bytes_per_s, and activations
  // that fit need no memory traffic. 0: everything goes through memory.
  double cache_bytes = 0;
  double cache_bytes_per_s = 0;
  Link device_link;  // between the devices of one node
  std::optional<Bridge> bridge;
  Link node_link;  // between nodes
  Link host_link;  // device memory to host memory
  int32_t devices_per_node = 8;
  double price_per_hour = 0;  // dollars; 0: unknown
  std::string price_source;   // the seller, and the date
  double watts = 0;

  // The constants that say how close kernels come to the limits. Kinds that are missing use those
  // of another kind with the same arithmetic (gemm_model(), experts_model()).
  std::map<KernelKind, GemmModel> gemm;
  std::map<KernelKind, ExpertsModel> experts;
  // By the format of the cache, since FP8 caches have kernels of their own.
  PrefillAttentionModel prefill_attention;
  PrefillAttentionModel prefill_attention_fp8;
  DecodeAttentionModel decode_attention;
  DecodeAttentionModel decode_attention_fp8;
  ElementwiseModel elementwise;
  CollectiveModel collective;  // of a library
  // A kernel that servers have for small all-reduces in a node; the faster of the two is used.
  std::optional<CollectiveModel> small_all_reduce;
  HostModel host;

  CombinationRule rule = CombinationRule::kSum;
  double lambda = 1;  // for kMaxPlusMin

  // Memory that is not for KV blocks (memory_model.h).
  double memory_utilisation = 0.90;
  double reserved_bytes = 0;              // context, graphs, libraries
  double communication_buffer_bytes = 0;  // if tp > 1

  std::string table_path;  // directory of operator tables for Fidelity::kTable; may be empty
  Provenance provenance;

  // Returns the peak of a type. A type without a unit has the peak of the next wider one (fp8 on
  // A100 runs as bf16).
  double peak(MathType math) const;
  const PrefillAttentionModel& prefill_model(const NumberFormat& kv) const;
  const DecodeAttentionModel& decode_model(const NumberFormat& kv) const;
  GemmModel gemm_model(const NumberFormat& weights) const;
  ExpertsModel experts_model(const NumberFormat& weights) const;
  MathType effective_math(MathType math) const;
  Status validate() const;
};

// Parses a description. The text is not trusted. `where` begins messages, such as the file's name.
Result<Hardware> parse_hardware(std::string_view json, std::string_view where);
std::string to_json(const Hardware& hardware);

// Returns the names of the built-in descriptions: "h100-sxm", "h100-pcie", "h200-sxm", "h20",
// "b200", "a100-sxm", "a40", "l40s", "rtx-4090", "rtx-pro-6000", "cpu-avx2", "cpu-avx512" ….
std::vector<std::string> known_hardware();
// Finds a built-in description (case and punctuation do not matter); kNotFound lists the names.
Result<Hardware> find_hardware(std::string_view name);

}  // namespace quire
