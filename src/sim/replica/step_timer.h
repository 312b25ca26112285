// A StepTimer says how long a step takes, which is the only thing that the simulator does not take
// from the engine.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "roofline/model/cost_model.h"

namespace quire::sim {

struct StepTime {
  int64_t total_ns = 0;  // from schedule() to update()
  int64_t stage_ns = 0;  // until the next step may start; less than total_ns with pipeline stages
};

// A timer is immutable; any thread may use it.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  // Both times are at least 1 ns.
  virtual StepTime time(const StepShape& shape) const = 0;
  // Computes total_ns of decode steps that follow each other, as CostModel::predict_decodes_us()
  // does.
  virtual void time_decodes(StepShape& shape, std::span<const int32_t> num_inside,
                            std::span<int64_t> total_ns) const;
  // Returns the host's part of total_ns, which depends only on num_requests and num_tokens.
  virtual int64_t host_ns(const StepShape& shape) const = 0;
  // Returns the sliding windows whose context sums the shape must have, in ascending order.
  virtual std::span<const int32_t> windows() const { return {}; }
};

// CostModelTimer takes times from the cost model of roofline/.
class CostModelTimer final : public StepTimer {
 public:
  explicit CostModelTimer(std::shared_ptr<const CostModel> model);
  StepTime time(const StepShape& shape) const override;
  void time_decodes(StepShape& shape, std::span<const int32_t> num_inside,
                    std::span<int64_t> total_ns) const override;
  int64_t host_ns(const StepShape& shape) const override;
  std::span<const int32_t> windows() const override { return model_->windows(); }

 private:
  std::shared_ptr<const CostModel> model_;  // shared by the replicas of a pool
};

// AffineTimer says that a step takes step + token * T + context * Σ context nanoseconds. It is for
// tests, and for machines about which no more is known.
struct AffineTimer final : StepTimer {
  double step_ns = 1e6;
  double token_ns = 0;
  double context_ns = 0;
  double host_step_ns = 0;  // the host's part of step_ns
  StepTime time(const StepShape& shape) const override;
  int64_t host_ns(const StepShape& shape) const override;
};

}  // namespace quire::sim
