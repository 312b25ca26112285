#include "roofline/model/kernel_time.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace quire {
namespace {

constexpr double kMicro = 1e6;

// Returns (a^p + b^p)^(1/p), without overflow.
double soft_max(double a, double b, double p) {
  const double high = std::max(a, b);
  const double low = std::min(a, b);
  if (high <= 0 || low <= high * 1e-3) return high;
  return high * std::pow(1 + std::pow(low / high, p), 1 / p);
}

// Returns the inverse of the share at `rows`. Interpolation is over times, not over speeds.
double slowdown_at(const std::vector<SharePoint>& shares, double rows) {
  if (rows <= shares.front().rows) return 1 / shares.front().share;
  if (rows >= shares.back().rows) return 1 / shares.back().share;
  const auto upper = std::upper_bound(shares.begin(), shares.end(), rows,
                                      [](double r, const SharePoint& p) { return r < p.rows; });
  const auto lower = upper - 1;
  const double f = std::log(rows / lower->rows) / std::log(upper->rows / lower->rows);
  return (1 - f) / lower->share + f / upper->share;
}

struct Tile {
  double rows;
  double columns;
};
constexpr std::array<Tile, 6> kTiles = {
    {{64, 64}, {64, 128}, {128, 64}, {128, 128}, {128, 256}, {256, 128}}};
constexpr std::array<double, 5> kSplits = {1, 2, 4, 8, 16};

// Returns the compute time of a tiled product, for the best of the tile sizes and K splits.
double tiled_compute_us(const GemmWork& work, const Hardware& hardware, const GemmModel& model,
                        double peak) {
  const double units = hardware.num_units;
  const double cache =
      model.cache_bytes_per_s > 0 ? model.cache_bytes_per_s : 10 * hardware.memory_bytes_per_s;
  const double multiply_us = 2 * units / (model.compute_share * peak) * kMicro;
  const double load_us = work.activation_bytes * units / cache * kMicro;
  const double merge_us = model.split_traffic * 2 * work.m * work.n * 4 * work.batch /
                          hardware.memory_bytes_per_s * kMicro;
  double best = 1e300;
  for (const Tile& tile : kTiles) {
    const double tiles =
        std::ceil(work.m / tile.rows) * std::ceil(work.n / tile.columns) * work.batch;
    const double per_k =
        std::max(tile.rows * tile.columns * multiply_us, (tile.rows + tile.columns) * load_us);
    for (const double split : kSplits) {
      const double depth = std::max(work.k / split, 32.0);
      const double waves = std::ceil(tiles * split / units);
      const double merge = split > 1 ? merge_us * split + model.split_us : 0;
      best = std::min(best, waves * (per_k * depth + model.tile_us) + merge);
    }
  }
  return best;
}

// Returns the time of a pass that reads activations [m, k] of two bytes and writes one byte each.
double quantize_us(const GemmWork& work, const Hardware& hardware, const GemmModel& model) {
  if (model.quantize_share <= 0) return 0;
  const double moved = (work.activation_bytes + 1) * work.m * work.k * work.batch;
  return std::max(moved / (hardware.memory_bytes_per_s * model.quantize_share) * kMicro,
                  model.quantize_row_us * work.m * work.batch);
}

// Returns the rows of a tile, which is doubled from `least` while it holds fewer than `rows`, up to
// `most`.
double power_of_two_from(double least, double rows, double most) {
  while (least < rows && least < most) least *= 2;
  return least;
}

// Marlin, which multiplies 4-bit weights, uses the first of these tiles that the rows fill to less
// than nine tenths.
double marlin_tile_rows(double rows) {
  constexpr std::array<double, 5> kHeights = {8, 16, 32, 48, 64};
  const auto fits = std::find_if(kHeights.begin(), kHeights.end(),
                                 [rows](double height) { return rows < 0.9 * height; });
  return fits == kHeights.end() ? kHeights.back() : *fits;
}

void finish(KernelTime& time, double predicted_us, double launch_us) {
  time.launch_us = launch_us;
  time.predicted_us = std::max(predicted_us + launch_us, time.bound_us);
}

}  // namespace

void KernelTime::add(const KernelTime& next) {
  if (next.predicted_us > predicted_us) compute_bound = next.compute_bound;
  flops += next.flops;
  weight_bytes += next.weight_bytes;
  kv_bytes += next.kv_bytes;
  activation_bytes += next.activation_bytes;
  write_bytes += next.write_bytes;
  bound_us += next.bound_us;
  predicted_us += next.predicted_us;
  launch_us += next.launch_us;
}

KernelTime gemm_time(const GemmWork& work, const Hardware& hardware) {
  KernelTime time;
  if (work.m <= 0 || work.batch <= 0) return time;
  const MathType math = hardware.effective_math(work.weights.math);
  const GemmModel model = hardware.gemm_model(work.weights);
  const double peak = hardware.peak(math);
  time.flops = 2 * work.m * work.n * work.k * work.batch;
  time.weight_bytes = work.weights.bytes() * work.n * work.k * work.batch;
  time.write_bytes = work.activation_bytes * work.m * work.n * work.batch;
  time.activation_bytes = work.activation_bytes * work.m * work.k * work.batch + time.write_bytes;
  const double moved = time.weight_bytes +
                       (time.activation_bytes > hardware.cache_bytes ? time.activation_bytes : 0);
  const double compute_us = time.flops / peak * kMicro;
  const double memory_us = moved / hardware.memory_bytes_per_s * kMicro;
  time.bound_us = std::max(compute_us, memory_us);
  if (!model.shares.empty()) {
    time.compute_bound = compute_us >= memory_us;
    finish(time, time.bound_us * slowdown_at(model.shares, work.m), model.launch_us);
    return time;
  }
  const double real_compute_us = hardware.num_units > 0
                                     ? tiled_compute_us(work, hardware, model, peak)
                                     : compute_us / model.compute_share;
  const double real_memory_us = memory_us / model.memory_share;
  time.compute_bound = real_compute_us >= real_memory_us;
  finish(time,
         soft_max(real_compute_us, real_memory_us, model.exponent) +
             quantize_us(work, hardware, model),
         model.launch_us);
  return time;
}

double expert_tile_rows(const NumberFormat& weights, double rows_per_expert) {
  const KernelKind kind = kernel_kind(weights);
  if (kind == KernelKind::kInt4) return marlin_tile_rows(rows_per_expert);
  // Triton's kernels of two-byte products have larger tiles than those of FP8 blocks.
  const bool is_wide = kind == KernelKind::kBf16 || kind == KernelKind::kMxfp4;
  return power_of_two_from(16, rows_per_expert, is_wide ? 128 : 64);
}

KernelTime experts_time(const ExpertsWork& work, const Hardware& hardware) {
  GemmWork product{.m = work.rows / work.distinct,
                   .n = work.gate_up_rows,
                   .k = work.hidden_size,
                   .batch = work.distinct,
                   .weights = work.weights,
                   .activation_bytes = work.activation_bytes};
  KernelTime time = gemm_time(product, hardware);
  product.n = work.hidden_size;
  product.k = work.down_depth;
  const KernelTime down = gemm_time(product, hardware);
  time.compute_bound = down.bound_us > time.bound_us ? down.compute_bound : time.compute_bound;
  time.flops += down.flops;
  time.weight_bytes += down.weight_bytes;
  time.activation_bytes += down.activation_bytes;
  time.write_bytes += down.write_bytes;
  time.bound_us += down.bound_us;
  time.predicted_us += down.predicted_us;
  time.launch_us += down.launch_us;
  if (hardware.num_units == 0) return time;  // a CPU runs its products one after the other

  const ExpertsModel model = hardware.experts_model(work.weights);
  const double rows = work.rows / work.distinct;
  const double height =
      expert_tile_rows(work.weights, (work.rows + work.foreign_rows) / work.distinct);
  const double padding = work.padding > 0 ? work.padding : std::ceil(rows / height) * height / rows;
  const double peak = hardware.peak(work.weights.math);
  const double bandwidth = hardware.memory_bytes_per_s;
  const double compute_us = time.flops * padding / (peak * model.compute_share) * kMicro;
  const double memory_us = time.weight_bytes / (bandwidth * model.memory_share) * kMicro;
  const double width = work.gate_up_rows + work.down_depth;
  const double row_bytes =
      work.rows * (3 * work.hidden_size + width + work.down_depth) / model.row_share +
      work.foreign_rows * (work.hidden_size + width) / model.foreign_share;
  finish(time,
         soft_max(compute_us, memory_us, model.exponent) + model.expert_us * work.distinct +
             row_bytes * work.activation_bytes / bandwidth * kMicro,
         model.launch_us + (work.foreign_rows > 0 ? model.foreign_us : 0));
  return time;
}

namespace {

// Returns the rows of a query tile for this many rows.
double tile_rows(const PrefillAttentionModel& model, double rows) {
  return power_of_two_from(model.min_tile_rows, rows, model.tile_rows);
}

struct ChunkSums {
  double pairs = 0;  // queries x keys, exact
  double keys = 0;   // read once per pass
  double queries = 0;
  double tiles = 0;       // per KV head
  double tile_pairs = 0;  // Σ over tiles of rows x keys, padded
  double longest = 0;     // rows x keys of the longest tile
};

// Returns the sum of the keys that each of the chunk's queries sees.
double causal_pairs(double tokens, double context, double window) {
  const double first = context + 1;
  const double last = context + tokens;
  if (window <= 0 || last <= window) return tokens * (first + last) / 2;
  if (first >= window) return tokens * window;
  const double below = window - first + 1;  // queries that see less than the window
  return below * (first + window) / 2 + (tokens - below) * window;
}

// Adds `count` requests with the same queries after the same number of keys.
void add_queries(ChunkSums& sums, const AttentionWork& work, const PrefillAttentionModel& model,
                 double tokens, double context, double count = 1) {
  const double group = model.packs_heads ? work.num_heads / work.num_kv_heads : 1;
  const double pairs = causal_pairs(tokens, context, work.window);
  const double rows = tokens * group;
  const double height = tile_rows(model, rows);
  const double width = tile_rows(model, tokens);
  const double limit = work.window > 0 ? work.window + width : 1e18;
  const double tiles = std::ceil(rows / height);
  const double mean_keys = std::max(std::min(pairs / tokens + width / 2, limit), width);
  sums.pairs += count * pairs;
  sums.queries += count * tokens;
  sums.keys += count * (work.window > 0 ? std::min(context + tokens, work.window + tokens)
                                        : context + tokens);
  sums.tiles += count * tiles;
  sums.tile_pairs += count * tiles * height * mean_keys;
  sums.longest =
      std::max(sums.longest, height * std::max(width, std::min(context + tokens, limit)));
}

ChunkSums sum_chunks(const AttentionWork& work, std::span<const PromptChunk> chunks,
                     const PrefillAttentionModel& model) {
  ChunkSums sums;
  for (const PromptChunk& chunk : chunks) {
    add_queries(sums, work, model, chunk.num_tokens, chunk.context);
  }
  return sums;
}

// Distributes tiles over units: in whole waves if all tiles are equal, packed without gaps if short
// ones fill in (causal from position 0), but never shorter than the longest tile.
double tiled_attention_us(const ChunkSums& sums, double streams, double pair_us, double tile_us,
                          double units) {
  const double tiles = streams * sums.tiles;
  const double unit_pair_us = pair_us * units;
  const double mean_us = sums.tile_pairs / sums.tiles * unit_pair_us + tile_us;
  const double longest_us = sums.longest * unit_pair_us + tile_us;
  const double packed_us = tiles * mean_us / units;
  const double waves_us = std::ceil(tiles / units) * mean_us;
  const double evenness = std::max(0.0, 2 * mean_us / longest_us - 1);
  return std::max(longest_us, packed_us + (waves_us - packed_us) * evenness);
}

double pair_flops(const AttentionWork& work) { return 2 * (work.qk_dim + work.v_dim); }

// Returns the soft maximum of both sides of a launch over `sums`, without launch_us.
double prompt_launch_us(const AttentionWork& work, const ChunkSums& sums, double memory_us,
                        const Hardware& hardware, bool* compute_bound = nullptr) {
  const PrefillAttentionModel& model = hardware.prefill_model(work.kv);
  const double peak = hardware.peak(hardware.effective_math(MathType::kBf16));
  const double pair_us =
      (pair_flops(work) / model.compute_share + model.softmax_flops) / peak * kMicro;
  double compute_us = work.num_heads * sums.pairs * pair_us;
  if (hardware.num_units > 0) {
    const double streams = model.packs_heads ? work.num_kv_heads : work.num_heads;
    compute_us = tiled_attention_us(sums, streams, pair_us, model.tile_us, hardware.num_units);
  }
  if (compute_bound != nullptr) *compute_bound = compute_us >= memory_us;
  return soft_max(compute_us, memory_us, model.exponent);
}

// Returns the traffic of a launch over the chunks, and its least time.
KernelTime bound_of_chunks(const AttentionWork& work, const ChunkSums& sums,
                           const Hardware& hardware, double& memory_us) {
  KernelTime time;
  time.flops = pair_flops(work) * work.num_heads * sums.pairs;
  time.kv_bytes = work.kv_bytes_per_token * sums.keys;
  time.write_bytes = sums.queries * work.num_heads * work.v_dim * work.activation_bytes;
  time.activation_bytes =
      sums.queries * work.num_heads * work.qk_dim * work.activation_bytes + time.write_bytes;
  const double moved =
      time.kv_bytes + (time.activation_bytes > hardware.cache_bytes ? time.activation_bytes : 0);
  const double peak = hardware.peak(hardware.effective_math(MathType::kBf16));
  memory_us = moved / hardware.memory_bytes_per_s * kMicro;
  time.bound_us = std::max(time.flops / peak * kMicro, memory_us);
  return time;
}

}  // namespace

KernelTime prefill_attention_time(const AttentionWork& work, std::span<const PromptChunk> chunks,
                                  const Hardware& hardware) {
  if (chunks.empty()) return {};
  const PrefillAttentionModel& model = hardware.prefill_model(work.kv);
  const ChunkSums sums = sum_chunks(work, chunks, model);
  double memory_us = 0;
  KernelTime time = bound_of_chunks(work, sums, hardware, memory_us);
  const double us =
      prompt_launch_us(work, sums, memory_us / model.memory_share, hardware, &time.compute_bound);
  const double written_bytes = sums.queries * work.kv_bytes_per_token;
  finish(time, us + model.cache_write * written_bytes / hardware.memory_bytes_per_s * kMicro,
         model.launch_us);
  return time;
}

KernelTime source_attention_time(const AttentionWork& work, std::span<const SourceChunk> chunks,
                                 const Hardware& hardware) {
  if (chunks.empty()) return {};
  const PrefillAttentionModel& model = hardware.prefill_model(work.kv);
  ChunkSums sums;
  for (const SourceChunk& chunk : chunks) {
    const double height = tile_rows(model, chunk.num_tokens);
    const double keys = std::max(static_cast<double>(chunk.num_rows), height);
    const double tiles = std::ceil(chunk.num_tokens / height);
    sums.pairs += static_cast<double>(chunk.num_tokens) * chunk.num_rows;
    sums.queries += chunk.num_tokens;
    sums.keys += chunk.num_rows;
    sums.tiles += tiles;
    sums.tile_pairs += tiles * height * keys;
    sums.longest = std::max(sums.longest, height * keys);
  }
  double memory_us = 0;
  KernelTime time = bound_of_chunks(work, sums, hardware, memory_us);
  const double us =
      prompt_launch_us(work, sums, memory_us / model.memory_share, hardware, &time.compute_bound);
  finish(time, us, model.launch_us);
  return time;
}

bool shares_attention_launch(const Hardware& hardware, const AttentionWork& work) {
  return hardware.num_units > 0 && !hardware.prefill_model(work.kv).packs_heads;
}

KernelTime joined_decode_time(const AttentionWork& work, std::span<const PromptChunk> chunks,
                              double num_requests, double context_sum, const Hardware& hardware) {
  KernelTime time = decode_attention_time(work, num_requests, context_sum, hardware);
  if (chunks.empty() || num_requests <= 0) return time;
  const PrefillAttentionModel& model = hardware.prefill_model(work.kv);
  ChunkSums sums = sum_chunks(work, chunks, model);
  double memory_us = 0;
  bound_of_chunks(work, sums, hardware, memory_us);
  memory_us /= model.memory_share;
  const double alone_us = prompt_launch_us(work, sums, memory_us, hardware);
  add_queries(sums, work, model, 1, std::max(0.0, context_sum / num_requests - 1), num_requests);
  memory_us += time.kv_bytes / hardware.memory_bytes_per_s * kMicro /
               hardware.decode_model(work.kv).memory_share;
  finish(time, prompt_launch_us(work, sums, memory_us, hardware) - alone_us, 0);
  return time;
}

// A decode kernel processes this many keys at a time, even if fewer are left.
constexpr double kKeyTile = 64;

KernelTime decode_attention_time(const AttentionWork& work, double num_requests, double context_sum,
                                 const Hardware& hardware) {
  return DecodeLaunch(work, num_requests, hardware).time(context_sum);
}

DecodeLaunch::DecodeLaunch(const AttentionWork& work, double num_requests,
                           const Hardware& hardware) {
  if (num_requests <= 0) return;
  const DecodeAttentionModel& model = hardware.decode_model(work.kv);
  const double peak = hardware.peak(hardware.effective_math(MathType::kBf16));
  num_requests_ = num_requests;
  flops_per_key_ = pair_flops(work) * work.num_heads;
  kv_bytes_per_key_ = work.kv_bytes_per_token;
  write_bytes_ = num_requests * work.num_heads * work.v_dim * work.activation_bytes;
  activation_bytes_ =
      num_requests * work.num_heads * work.qk_dim * work.activation_bytes + write_bytes_;
  compute_us_per_key_ = flops_per_key_ / peak * kMicro;
  memory_us_per_key_ = kv_bytes_per_key_ / hardware.memory_bytes_per_s * kMicro;
  bound_us_per_key_ = std::max(compute_us_per_key_, memory_us_per_key_);
  compute_us_per_key_ /= model.compute_share;
  slowdown_ = 1 / model.memory_share;
  exponent_ = model.exponent;
  launch_us_ = model.launch_us;
  units_ = hardware.num_units;
  if (units_ == 0) return;
  const double group = work.num_heads / work.num_kv_heads;
  compute_us_per_key_ *= std::ceil(group / 64) * 64 / group;
  pairs_ = num_requests * work.num_kv_heads;
  unit_share_ = model.unit_share;
  launch_us_ += model.request_us * pairs_ / units_;
  combine_us_ = model.combine_us;
}

double DecodeLaunch::predicted_us(double context_sum) {
  if (num_requests_ <= 0) return 0;
  const double keys = std::max(1.0, context_sum / num_requests_);
  const double tiles = std::ceil(keys / kKeyTile);
  // Without units, the only ratio is that of a device that is busy as a whole.
  const double busy = units_ > 0 ? std::min(pairs_ * tiles, units_) : 1;
  if (busy != busy_) {
    const double slowdown =
        units_ > 0 ? std::max(slowdown_, units_ / (busy * unit_share_)) : slowdown_;
    const double memory_us = memory_us_per_key_ * slowdown;
    busy_ = busy;
    us_per_key_ = soft_max(memory_us, compute_us_per_key_, exponent_);
    compute_bound_ = compute_us_per_key_ >= memory_us;
  }
  const double padding = units_ > 0 ? tiles * kKeyTile / keys : 1;
  // If keys are split, a second pass joins the partial sums.
  const double overhead_us = launch_us_ + (tiles > 1 && pairs_ < units_ ? combine_us_ : 0);
  return std::max(context_sum * us_per_key_ * padding + overhead_us, bound_us(context_sum));
}

KernelTime DecodeLaunch::time(double context_sum) {
  KernelTime time;
  if (num_requests_ <= 0) return time;
  time.flops = flops_per_key_ * context_sum;
  time.kv_bytes = kv_bytes_per_key_ * context_sum;
  time.write_bytes = write_bytes_;
  time.activation_bytes = activation_bytes_;
  time.bound_us = bound_us(context_sum);
  time.predicted_us = predicted_us(context_sum);
  const double keys = context_sum / num_requests_;
  time.launch_us = launch_us_ + (keys > kKeyTile && pairs_ < units_ ? combine_us_ : 0);
  time.compute_bound = compute_bound_;
  return time;
}

KernelTime state_scan_time(const StateWork& work, double tokens, double sequences,
                           const Hardware& hardware) {
  constexpr double kKernels = 2;  // convolution, recurrence
  KernelTime time;
  if (work.state_bytes <= 0 || tokens <= 0) return time;
  time.flops = work.token_flops * tokens;
  time.write_bytes = work.state_bytes * sequences;
  time.kv_bytes = 2 * time.write_bytes;
  // Prompts run as products of chunks, on the unit that attention uses.
  const double peak = hardware.peak(hardware.effective_math(MathType::kBf16));
  const double compute_us = time.flops / peak * kMicro;
  const double memory_us = time.kv_bytes / hardware.memory_bytes_per_s * kMicro;
  time.bound_us = std::max(compute_us, memory_us);
  const double real_compute_us = compute_us / hardware.decode_attention.compute_share;
  const double real_memory_us = memory_us / hardware.elementwise.memory_share;
  time.compute_bound = real_compute_us >= real_memory_us;
  finish(time, real_compute_us + real_memory_us, kKernels * hardware.elementwise.launch_us);
  return time;
}

KernelTime elementwise_time(double bytes, double write_bytes, double num_kernels,
                            const Hardware& hardware) {
  KernelTime time;
  time.activation_bytes = bytes;
  time.write_bytes = write_bytes;
  const double moved = bytes > hardware.cache_bytes ? bytes : 0;
  time.bound_us = moved / hardware.memory_bytes_per_s * kMicro;
  finish(time, time.bound_us / hardware.elementwise.memory_share,
         num_kernels * hardware.elementwise.launch_us);
  return time;
}

namespace {

// Returns how often each device passes a message on.
double rounds_of(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return 2;
    case Collective::kAllGather:
      return 1;
    case Collective::kAllToAll:
      break;
  }
  return 0;
}

double ramp_and_transfer_us(const CollectiveModel& model, double traffic, double link_bytes_per_s) {
  constexpr double kMega = 1e6;
  const double rate = model.bytes_per_s > 0 ? model.bytes_per_s : link_bytes_per_s * model.share;
  return model.ramp_us * std::sqrt(traffic / kMega) + traffic / rate * kMicro;
}

}  // namespace

KernelTime library_collective_time(Collective kind, int32_t num_devices, double bytes,
                                   const Hardware& hardware) {
  KernelTime time;
  if (num_devices <= 1) return time;
  const bool across_nodes = num_devices > hardware.devices_per_node;
  const bool bridged = num_devices == 2 && !across_nodes && hardware.bridge.has_value();
  CollectiveModel model = bridged ? hardware.bridge->collective : hardware.collective;
  const double n = num_devices;
  const Link& link = across_nodes ? hardware.node_link
                     : bridged    ? hardware.bridge->link
                                  : hardware.device_link;
  if (across_nodes) model.bytes_per_s = 0;
  const double traffic = (kind == Collective::kAllReduce ? 2 : 1) * (n - 1) / n * bytes;
  time.bound_us = traffic / link.bytes_per_s * kMicro;
  const double alpha_us = model.alpha_us + model.alpha_per_device_us * rounds_of(kind) * (n - 2) +
                          (across_nodes ? link.latency_us : 0);
  finish(time, ramp_and_transfer_us(model, traffic, link.bytes_per_s), alpha_us);
  return time;
}

KernelTime collective_time(Collective kind, int32_t num_devices, double bytes,
                           const Hardware& hardware) {
  KernelTime time = library_collective_time(kind, num_devices, bytes, hardware);
  if (kind != Collective::kAllReduce || !hardware.small_all_reduce || num_devices <= 1 ||
      num_devices > hardware.devices_per_node) {
    return time;
  }
  const CollectiveModel& model = *hardware.small_all_reduce;
  const double n = num_devices;
  const double alpha_us = model.alpha_us + model.alpha_per_device_us * (n - 2);
  const double link_bytes_per_s = hardware.device_link.bytes_per_s;
  const double us = ramp_and_transfer_us(model, 2 * (n - 1) / n * bytes, link_bytes_per_s);
  if (us + alpha_us < time.predicted_us) finish(time, us, alpha_us);
  return time;
}

}  // namespace quire
