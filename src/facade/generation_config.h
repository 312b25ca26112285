// GenerationConfig is what a checkpoint says about sampling and about where answers end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/sampling_defaults.h"

namespace quire {

// These are the fields of generation_config.json that Quire heeds.
struct GenerationConfig {
  SamplingDefaults sampling;
  std::vector<TokenId> eos_token_ids;
};

// `text` is generation_config.json. kInvalidArgument names the key.
Result<GenerationConfig> parse_generation_config(std::string_view text, std::string_view file_name);
// Reads eos_token_id alone, of config.json; empty when the file names none.
Result<std::vector<TokenId>> parse_eos_token_ids(std::string_view text, std::string_view file_name);

// Leaves out defaults that are out of bounds, because they would refuse requests that set none.
// Returns what was left out and what was expected; empty when nothing was.
std::string drop_invalid_defaults(SamplingDefaults& defaults);

}  // namespace quire
