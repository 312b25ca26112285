// GenerationConfig: a checkpoint's settings for sampling and for the end of answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/sampling_defaults.h"

namespace quire {

// The fields of generation_config.json that Quire uses.
struct GenerationConfig {
  SamplingDefaults sampling;
  std::vector<TokenId> eos_token_ids;
};

// Parses `text`, which is a generation_config.json. kInvalidArgument names the key.
Result<GenerationConfig> parse_generation_config(std::string_view text, std::string_view file_name);
// Parses only eos_token_id of a config.json; empty if the file has none.
Result<std::vector<TokenId>> parse_eos_token_ids(std::string_view text, std::string_view file_name);

// Drops defaults that are out of bounds, because they would make every request without settings
// fail. Returns which ones it dropped and what was expected; empty if none.
std::string drop_invalid_defaults(SamplingDefaults& defaults);

}  // namespace quire
