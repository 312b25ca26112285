// A model's own sampling settings, for requests that do not set them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/sampling_params.h"

namespace quire {

// Values of generation_config.json; a field that the file lacks is empty.
struct SamplingDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<int32_t> max_tokens;  // for servers also an upper bound
};

// Returns `params` with its distribution settings replaced by those that the model has. max_tokens
// is kept.
inline SamplingParams with_defaults(SamplingParams params, const SamplingDefaults& defaults) {
  params.temperature = defaults.temperature.value_or(params.temperature);
  params.top_p = defaults.top_p.value_or(params.top_p);
  params.top_k = defaults.top_k.value_or(params.top_k);
  params.min_p = defaults.min_p.value_or(params.min_p);
  params.repetition_penalty = defaults.repetition_penalty.value_or(params.repetition_penalty);
  return params;
}

}  // namespace quire
