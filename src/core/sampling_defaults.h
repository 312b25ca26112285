// What a model says about how it is sampled, where a request is silent.
#pragma once

#include <cstdint>
#include <optional>

#include "core/sampling_params.h"

namespace quire {

// Of generation_config.json; a field that the file lacks is empty.
struct SamplingDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<int32_t> max_tokens;  // for servers also an upper bound
};

// Returns `params` with the model's values of its distribution in the place of what it has.
// max_tokens stays.
inline SamplingParams with_defaults(SamplingParams params, const SamplingDefaults& defaults) {
  params.temperature = defaults.temperature.value_or(params.temperature);
  params.top_p = defaults.top_p.value_or(params.top_p);
  params.top_k = defaults.top_k.value_or(params.top_k);
  params.min_p = defaults.min_p.value_or(params.min_p);
  params.repetition_penalty = defaults.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

}  // namespace quire
