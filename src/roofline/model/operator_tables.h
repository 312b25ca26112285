// Measured times of single operators, with interpolation between them.
//
// A table keeps log(measured / analytic) over the logarithms of an operator's sizes. A lookup fits
// a surface through the nearest points: measured points are met, points between them are
// interpolated, and points outside get the ratio at the edge.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/model/kernel_time.h"
#include "roofline/model/scatter.h"

namespace quire {

struct GemmSample {
  GemmWork work;
  double us = 0;
};
// `batch` requests of equal shape in one launch.
struct AttentionSample {
  AttentionWork work;
  int32_t batch = 0;
  int32_t num_tokens = 0;  // new tokens of each request; 1: decode
  int32_t context = 0;     // keys of each request before them
  double us = 0;
};

// One layer of routed experts. `balanced`: every expert has an even share of the tokens; else some
// have more than others.
struct ExpertsSample {
  ExpertsWork work;
  bool balanced = true;
  double us = 0;
};
struct CollectiveSample {
  Collective kind = Collective::kAllReduce;
  int32_t num_devices = 2;
  double bytes = 0;
  double us = 0;
  bool library = true;  // false: the server's own kernel for small all-reduces
};

// These read CSV tables with the columns of aiconfigurator:
//   gemm_dtype, m, n, k, latency (ms);
//   batch_size, isl, num_heads, num_key_value_heads, head_dim, kv_cache_dtype, step, window_size,
//   latency (ms);
//   moe_dtype, num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size, moe_ep_size,
//   distribution, latency (ms);
//   num_gpus, message_size (elements of allreduce_dtype or nccl_dtype), latency (ms), op_name, and
//   backend, of which eager launches are left out.
// Rows of unknown dtypes and operations are left out. The text is not trusted; errors name file and
// row.
Result<std::vector<GemmSample>> read_gemm_csv(std::string_view text, std::string_view where);
Result<std::vector<AttentionSample>> read_attention_csv(std::string_view text,
                                                        std::string_view where);
Result<std::vector<ExpertsSample>> read_experts_csv(std::string_view text, std::string_view where);
Result<std::vector<CollectiveSample>> read_collective_csv(std::string_view text,
                                                          std::string_view where);

KernelTime analytic_time(const GemmSample& sample, const Hardware& hardware);
KernelTime analytic_time(const AttentionSample& sample, const Hardware& hardware);
KernelTime analytic_time(const ExpertsSample& sample, const Hardware& hardware);
KernelTime analytic_time(const CollectiveSample& sample, const Hardware& hardware);

// Immutable once made; any thread may use the tables.
class OperatorTables {
 public:
  // Ratios are relative to `hardware`; a cost model that uses the tables must have the same
  // hardware.
  OperatorTables(const Hardware& hardware, std::span<const GemmSample> gemm,
                 std::span<const AttentionSample> attention,
                 std::span<const ExpertsSample> experts = {});

  // These scale time.predicted_us by the table, if it has points for such work.
  void apply(const GemmWork& work, KernelTime& time) const;
  void apply(const ExpertsWork& work, KernelTime& time) const;
  void apply_prefill(const AttentionWork& work, std::span<const PromptChunk> chunks,
                     KernelTime& time) const;
  void apply_decode(const AttentionWork& work, double num_requests, double context_sum,
                    KernelTime& time) const;
  // Returns predicted_us scaled as by apply_decode().
  double scaled_decode_us(const AttentionWork& work, double num_requests, double context_sum,
                          double predicted_us, double bound_us) const;

 private:
  // The properties by which attention has separate kernels: head dimension, window and cache
  // format.
  struct AttentionKind {
    int32_t qk_dim;
    int32_t window;
    bool fp8;
    friend auto operator<=>(const AttentionKind&, const AttentionKind&) = default;
  };
  static AttentionKind kind_of(const AttentionWork& work);

  std::map<KernelKind, ScatterTable> gemm_;
  std::map<KernelKind, ScatterTable> experts_;
  std::map<AttentionKind, ScatterTable> prefill_;
  std::map<AttentionKind, ScatterTable> decode_;
};

}  // namespace quire
