// The time of one kernel on one device: the formulas of docs/roofline.md, as pure functions of the
// work and the hardware description. The cost model and calibration share them.
#pragma once

#include <span>

#include "roofline/hardware/hardware.h"
#include "roofline/shape/step_shape.h"

namespace quire {

// The resources and the time of a kernel.
struct KernelTime {
  double flops = 0;
  double weight_bytes = 0;      // read
  double kv_bytes = 0;          // read
  double activation_bytes = 0;  // read and written
  double write_bytes = 0;       // of activation_bytes, plus KV written
  double bound_us = 0;
  double predicted_us = 0;  // >= bound_us
  double launch_us = 0;     // of predicted_us
  bool compute_bound = false;

  double bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
  // Adds a kernel that runs after this one; compute_bound becomes that of the longer one.
  void add(const KernelTime& next);
};

// `batch` products [m, k] x [n, k]^T of equal shape in one launch (experts).
struct GemmWork {
  double m = 0;
  double n = 0;
  double k = 0;
  double batch = 1;
  NumberFormat weights;
  double activation_bytes = 2;  // per element, read and written
};
KernelTime gemm_time(const GemmWork& work, const Hardware& hardware);

// The routed experts of one layer on one device. Gate and up are one launch over the experts with
// rows, and down is another.
struct ExpertsWork {
  double rows = 0;          // tokens x experts per token, those of this device
  double distinct = 0;      // experts with rows
  double foreign_rows = 0;  // of other devices' experts, if no all-to-all has separated them
  double padding = 0;       // rows of whole tiles per row; 0: all experts have equally many rows
  double hidden_size = 0;
  double gate_up_rows = 0;
  double down_depth = 0;
  NumberFormat weights;
  double activation_bytes = 2;
};
KernelTime experts_time(const ExpertsWork& work, const Hardware& hardware);
// Returns the rows of a tile of an expert's products. The kernel is chosen before it is known which
// rows belong to other devices: by the rows that this device's experts would have if they took all.
double expert_tile_rows(const NumberFormat& weights, double rows_per_expert);

// One attention layer on one device, as its kernels see it.
struct AttentionWork {
  double num_heads = 0;     // query heads of this device
  double num_kv_heads = 0;  // of this device; 1 for a latent cache
  double qk_dim = 0;
  double v_dim = 0;
  double kv_bytes_per_token = 0;  // read per key, by all KV heads of this device
  double activation_bytes = 2;
  int32_t window = 0;  // 0: no window
  NumberFormat kv;
};
KernelTime prefill_attention_time(const AttentionWork& work, std::span<const PromptChunk> chunks,
                                  const Hardware& hardware);
// `context_sum` is the sum over requests of the keys seen, within the window.
KernelTime decode_attention_time(const AttentionWork& work, double num_requests, double context_sum,
                                 const Hardware& hardware);
// DecodeLaunch computes the same times, bit by bit, for launches of one batch in which only the
// keys change; what does not depend on keys is computed once. One thread may use it.
class DecodeLaunch {
 public:
  DecodeLaunch() = default;  // no requests, no time
  DecodeLaunch(const AttentionWork& work, double num_requests, const Hardware& hardware);
  KernelTime time(double context_sum);
  double bound_us(double context_sum) const { return context_sum * bound_us_per_key_; }
  double predicted_us(double context_sum);

 private:
  double num_requests_ = 0;
  double pairs_ = 0;  // pairs of requests and KV heads
  double units_ = 0;
  double flops_per_key_ = 0;
  double kv_bytes_per_key_ = 0;
  double activation_bytes_ = 0;
  double write_bytes_ = 0;
  double bound_us_per_key_ = 0;
  double compute_us_per_key_ = 0;  // including padded queries
  double memory_us_per_key_ = 0;   // at the full bandwidth
  double slowdown_ = 1;            // factor on memory time if all units are busy
  double unit_share_ = 1;
  double exponent_ = 1;
  double launch_us_ = 0;
  double combine_us_ = 0;
  // The busy units at the last call.
  double busy_ = 0;
  double us_per_key_ = 0;
  bool compute_bound_ = false;
};
// Returns the time of tokens that attend to all rows of a source, in one launch.
KernelTime source_attention_time(const AttentionWork& work, std::span<const SourceChunk> chunks,
                                 const Hardware& hardware);
// The convolution and the recurrence of one layer on one device. A launch reads and writes the
// state of each sequence once, however many tokens it processes.
struct StateWork {
  double token_flops = 0;
  double state_bytes = 0;  // of one sequence; 0: the layer keeps no state
};
KernelTime state_scan_time(const StateWork& work, double tokens, double sequences,
                           const Hardware& hardware);
// Returns whether this device's kernels run the prompt chunks and the decodes of a step in one
// launch of prompt attention. FlashAttention 2 does, which is recognised by query heads of a KV
// head that do not share tiles. Otherwise each kind has a launch of its own.
bool shares_attention_launch(const Hardware& hardware, const AttentionWork& work);
// Returns the time that the decodes of a step add to a launch that they share with its prompt
// chunks. Each is a chunk of one token, whose tiles are padded and whose keys are not split over
// units.
KernelTime joined_decode_time(const AttentionWork& work, std::span<const PromptChunk> chunks,
                              double num_requests, double context_sum, const Hardware& hardware);

// Returns the time of `num_kernels` small kernels that together read and write `bytes` bytes.
KernelTime elementwise_time(double bytes, double write_bytes, double num_kernels,
                            const Hardware& hardware);

enum class Collective : uint8_t { kAllReduce, kAllGather, kAllToAll };
// `bytes` is the whole message on one device. The second function considers only the library's
// kernels.
KernelTime collective_time(Collective kind, int32_t num_devices, double bytes,
                           const Hardware& hardware);
KernelTime library_collective_time(Collective kind, int32_t num_devices, double bytes,
                                   const Hardware& hardware);

}  // namespace quire
