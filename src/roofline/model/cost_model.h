// CostModel predicts the cost of a step: FLOPs, bytes, the bound that the hardware sets, and the
// time.
//
// The prediction is a sum over kernels, with a soft maximum of compute and memory time inside each,
// plus host cost per step and request (docs/roofline.md has every formula). A model is immutable
// once made; any thread may predict, and predict() and predict_us() allocate nothing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/hardware/hardware.h"
#include "roofline/shape/model_shape.h"
#include "roofline/shape/step_shape.h"

namespace quire {

class OperatorTables;

enum class Fidelity : uint8_t {
  kBound,     // the limit: every share 1, every overhead 0
  kAnalytic,  // shares and overheads of the hardware description
  kTable,     // measured operator times if there are some, else analytic
};
std::string_view to_string(Fidelity fidelity);
Result<Fidelity> parse_fidelity(std::string_view name);

enum class Kernel : uint8_t {
  kEmbedding,
  kQkvProjection,
  kPrefillAttention,
  kDecodeAttention,
  kStateScan,       // convolutions and recurrences of layers with states
  kCrossAttention,  // attention to the rows of sources
  kEncoder,         // encoding of sources, and making the layers' keys and values of them
  kOutputProjection,
  kMlp,
  kRouter,
  kExperts,
  kElementwise,  // norms, rope, activation, residuals, cache writes
  kHead,
  kSampling,
  kAllReduce,
  kAllToAll,
  kPipelineHop,
  kHost,
};
inline constexpr int kNumKernels = 18;
std::string_view to_string(Kernel kernel);

// What a part of the time is spent on.
enum class Term : uint8_t { kWeights, kKv, kActivations, kCompute, kNetwork, kLaunch, kHost };
inline constexpr int kNumTerms = 7;
std::string_view to_string(Term term);

// The cost of one kernel in all layers of a device.
struct KernelCost {
  double flops = 0;
  double read_bytes = 0;
  double write_bytes = 0;
  double bound_us = 0;
  double predicted_us = 0;
  Term bound_by = Term::kCompute;

  double intensity() const {  // FLOP per byte
    const double bytes = read_bytes + write_bytes;
    return bytes > 0 ? flops / bytes : 0;
  }
};

// The cost of a step on one device. Terms sum to total_us.
struct StepCost {
  double total_us = 0;  // from the start of the step to its tokens, including the host
  double stage_us = 0;  // of the slowest pipeline stage; = total_us with pp = 1
  double host_us = 0;   // of total_us
  double bound_us = 0;
  double flops = 0;
  double read_bytes = 0;
  double write_bytes = 0;
  std::array<double, kNumTerms> terms{};  // us, by Term
  Term binding = Term::kWeights;          // the largest term of the bound
};

struct CostOptions {
  Fidelity fidelity = Fidelity::kAnalytic;
  // The times of linear layers of steps with up to this many tokens are computed once, in create().
  int32_t max_memoised_tokens = 8192;
  // For models with experts: how unevenly tokens choose them (Routing::skew). Fidelity::kBound
  // assumes an even choice.
  double routing_skew = 0;
};

class CostModel {
 public:
  // `tables` are for Fidelity::kTable; otherwise they may be null.
  static Result<CostModel> create(ModelShape model, Hardware hardware, Parallelism parallelism = {},
                                  CostOptions options = {},
                                  std::shared_ptr<const OperatorTables> tables = nullptr);
  CostModel(CostModel&&) noexcept;
  CostModel& operator=(CostModel&&) noexcept;
  ~CostModel();

  // An empty step costs nothing.
  StepCost predict(const StepShape& step) const;
  // These return only total_us and only the bound, which the simulator and the engine need at every
  // step.
  double predict_us(const StepShape& step) const;
  double bound_us(const StepShape& step) const;
  // Predicts out.size() consecutive steps of decodes alone: out[i] has the bits of predict_us() for
  // the i-th. From each step to the next every context grows by a token, and of `num_inside[w]`
  // requests the context is still within windows()[w]. Leaves `step` as the step after the last.
  void predict_decodes_us(StepShape& step, std::span<const int32_t> num_inside,
                          std::span<double> out) const;
  // Returns the cost of each kernel, indexed by Kernel.
  std::array<KernelCost, kNumKernels> explain(const StepShape& step) const;

  const ModelShape& model() const;
  const Hardware& hardware() const;
  const Parallelism& parallelism() const;
  const std::vector<int32_t>& windows() const;  // for the construction of StepShapes
  Fidelity fidelity() const;

 private:
  struct Impl;
  explicit CostModel(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace quire
