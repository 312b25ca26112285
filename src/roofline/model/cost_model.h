// A CostModel says what a step costs: FLOPs, bytes, the bound that the hardware sets, and a
// prediction.
//
// The prediction is a kernel sum: inside one kernel a soft maximum of compute and memory time,
// across kernels a sum, plus host cost per step and request (docs/roofline.md gives every formula).
// A model is immutable once made; any thread may predict, and predict() and predict_us() allocate
// nothing.
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
  kTable,     // measured operator times where there are some, else analytic
};
std::string_view to_string(Fidelity fidelity);
Result<Fidelity> parse_fidelity(std::string_view name);

enum class Kernel : uint8_t {
  kEmbedding,
  kQkvProjection,
  kPrefillAttention,
  kDecodeAttention,
  kStateScan,       // convolutions and recurrences of layers with states
  kCrossAttention,  // to the rows of sources
  kEncoder,         // of sources, with the keys and values that layers keep of them
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

// A Term is a place where time goes.
enum class Term : uint8_t { kWeights, kKv, kActivations, kCompute, kNetwork, kLaunch, kHost };
inline constexpr int kNumTerms = 7;
std::string_view to_string(Term term);

// A KernelCost is one kernel over all layers of a device.
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

// The cost is per device, and terms sum to total_us.
struct StepCost {
  double total_us = 0;  // from the start of the step to its tokens, host included
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
  // Steps of up to this many tokens find the time of their linear layers in a table that is made at
  // the start.
  int32_t max_memoised_tokens = 8192;
  // Of models with experts: how unevenly tokens choose them (Routing::skew). Fidelity::kBound takes
  // them as even.
  double routing_skew = 0;
};

class CostModel {
 public:
  // `tables` are for Fidelity::kTable, and may be null otherwise.
  static Result<CostModel> create(ModelShape model, Hardware hardware, Parallelism parallelism = {},
                                  CostOptions options = {},
                                  std::shared_ptr<const OperatorTables> tables = nullptr);
  CostModel(CostModel&&) noexcept;
  CostModel& operator=(CostModel&&) noexcept;
  ~CostModel();

  // An empty step costs nothing.
  StepCost predict(const StepShape& step) const;
  // These return total_us alone and the bound alone, which the simulator and the engine ask for at
  // every step.
  double predict_us(const StepShape& step) const;
  double bound_us(const StepShape& step) const;
  // Predicts out.size() steps that follow each other and only decode: out[i] has the bits of
  // predict_us() of the i-th. From one to the next each context grows by a token, and of
  // `num_inside[w]` requests it is still within windows()[w]. Leaves `step` as the one behind the
  // last.
  void predict_decodes_us(StepShape& step, std::span<const int32_t> num_inside,
                          std::span<double> out) const;
  // Returns the cost kernel by kernel, indexed by Kernel.
  std::array<KernelCost, kNumKernels> explain(const StepShape& step) const;

  const ModelShape& model() const;
  const Hardware& hardware() const;
  const Parallelism& parallelism() const;
  const std::vector<int32_t>& windows() const;  // to build StepShapes with
  Fidelity fidelity() const;

 private:
  struct Impl;
  explicit CostModel(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace quire
