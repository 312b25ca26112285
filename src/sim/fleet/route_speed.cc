#include "sim/fleet/route_speed.h"

#include <algorithm>

namespace quire::sim {
namespace {

constexpr int32_t kContext = 4096;
constexpr int32_t kBatch = 32;

double prefill_us(const StepTimer& timer, int32_t context, int32_t num_tokens) {
  StepShape shape;
  shape.add(context, num_tokens, true, timer.windows());
  return static_cast<double>(timer.time(shape).total_ns) * 1e-3;
}

double decode_us(const StepTimer& timer, int32_t batch, int32_t context) {
  StepShape shape;
  for (int32_t i = 0; i < batch; ++i) shape.add(context, 1, true, timer.windows());
  return static_cast<double>(timer.time(shape).total_ns) * 1e-3;
}

}  // namespace

RouteSpeed route_speed(const ReplicaSpec& spec, int64_t kv_tokens) {
  const StepTimer& timer = *spec.timer;
  const SchedulerConfig& config = spec.engine.scheduler;
  const int32_t chunk = std::max(2, config.max_num_batched_tokens);
  const double first_us = prefill_us(timer, 0, chunk);
  const double later_us = prefill_us(timer, kContext, chunk);
  const double small_us = decode_us(timer, kBatch, kContext);
  const double more_context_us = decode_us(timer, kBatch, 2 * kContext);
  const double more_requests_us = decode_us(timer, 2 * kBatch, kContext);
  RouteSpeed speed{.step_us = decode_us(timer, 1, 1), .kv_tokens = kv_tokens};
  speed.prefill_us_per_pair = std::max(0.0, later_us - first_us) / kContext / chunk;
  speed.prefill_us_per_token =
      std::max(0.0, first_us / chunk - speed.prefill_us_per_pair * chunk / 2);
  speed.decode_us_per_context_token = std::max(0.0, more_context_us - small_us) / kBatch / kContext;
  speed.decode_us_per_request = std::max(
      0.0, (more_requests_us - small_us) / kBatch - kContext * speed.decode_us_per_context_token);
  return speed;
}

}  // namespace quire::sim
