// A StepTimer says how long a step takes: the one thing that the simulator does not take from the
// engine.
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
  int64_t stage_ns = 0;  // until the next step may start; < total_ns with pipeline stages
};

// A timer is immutable; any thread may use it.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  // Both times are at least 1 ns.
  virtual StepTime time(const StepShape& shape) const = 0;
  // Fills in total_ns of steps of decodes that follow each other, as
  // CostModel::predict_decodes_us() does.
  virtual void time_decodes(StepShape& shape, std::span<const int32_t> num_inside,
                            std::span<int64_t> total_ns) const;
  // Returns the part of total_ns that is the host's; it depends on num_requests and num_tokens
  // alone.
  virtual int64_t host_ns(const StepShape& shape) const = 0;
  // Returns the sliding windows whose context sums the shape must carry, ascending.
  virtual std::span<const int32_t> windows() const { return {}; }
};

// CostModelTimer asks the cost model of roofline/.
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

// A step takes step + token * T + context * Σ context nanoseconds. This is for tests, and for a
// machine of which no more is known.
struct AffineTimer final : StepTimer {
  double step_ns = 1e6;
  double token_ns = 0;
  double context_ns = 0;
  double host_step_ns = 0;  // of step_ns
  StepTime time(const StepShape& shape) const override;
  int64_t host_ns(const StepShape& shape) const override;
};

}  // namespace quire::sim
