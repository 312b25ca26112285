// GenerationConfig is what a checkpoint says about sampling and about where answers end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/sampling_params.h"

namespace quire {

// These are the fields of generation_config.json; one that the file lacks is empty.
struct GenerationConfig {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<int32_t> max_new_tokens;
  std::vector<TokenId> eos_token_ids;
};

// `text` is generation_config.json. kInvalidArgument names the key.
Result<GenerationConfig> parse_generation_config(std::string_view text, std::string_view file_name);
// Reads eos_token_id alone, of config.json; empty when the file names none.
Result<std::vector<TokenId>> parse_eos_token_ids(std::string_view text, std::string_view file_name);

// Leaves out defaults that are out of bounds, because they would refuse requests that set none.
// Returns what was left out and what was expected; empty when nothing was.
std::string drop_invalid_defaults(GenerationConfig& config);

// Returns `params` with the configuration's values in place of the defaults.
SamplingParams with_defaults(SamplingParams params, const GenerationConfig& config);

}  // namespace quire
