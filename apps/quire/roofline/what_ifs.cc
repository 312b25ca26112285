#include "quire/roofline/what_ifs.h"

#include <cmath>
#include <string_view>

#include "roofline/hardware/number_format.h"

namespace quire::roofline {

std::vector<WhatIf> what_ifs(const CostModel& cost) {
  const ModelShape& base = cost.model();
  const Parallelism& parallel = cost.parallelism();
  Parallelism doubled = parallel;
  doubled.tp *= 2;
  const auto format = [](std::string_view name) { return *parse_number_format(name); };
  // Assumes 4 draft tokens, each of which is accepted with probability 0.7, and a draft model that
  // costs nothing: a step yields 1 + 0.7 + 0.7^2 + 0.7^3 + 0.7^4 tokens.
  const double speculated = (1 - std::pow(0.7, 5)) / 0.3;
  return {{"as it is", base, parallel},
          {"FP8 KV cache", with_kv(base, format("fp8")), parallel},
          {"8-bit weights", with_weights(base, format("fp8")), parallel},
          {"4-bit weights", with_weights(base, format("int4")), parallel},
          {"tp doubled", base, doubled},
          {"4 drafted, 70 % right", base, parallel, speculated, 5}};
}

std::optional<double> tokens_per_s(const WhatIf& what, const Hardware& hardware, int32_t batch,
                                   int32_t context) {
  const Result<CostModel> cost =
      CostModel::create(what.model, hardware, what.parallelism, {.max_memoised_tokens = 0});
  if (!cost.ok()) return std::nullopt;
  StepShape step;
  for (int32_t i = 0; i < batch; ++i) {
    step.add(context - what.positions, what.positions, true, cost->windows());
  }
  step.num_sampled = batch * what.positions;
  return batch * what.tokens_per_step / cost->predict_us(step) * 1e6;
}

}  // namespace quire::roofline
