// Key files list the keys that may use the server, with a name and limits for each.
//
//   {"keys": [{"name": "team-a", "key": "sk-…", "requests_per_minute": 60,
//              "tokens_per_minute": 100000, "max_concurrent": 8, "priority": 5},
//             {"name": "team-b", "sha256": "9f86d0…"}]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/keys/rate_limit.h"

namespace quire::server {

struct KeySpec {
  std::string name;
  std::string digest;  // SHA-256 of the key in hex
  KeyLimits limits = {};
  std::optional<int32_t> priority = {};  // for requests that name none
};

// Reads at most 1000 keys; names and keys must be unique. kInvalidArgument: what was expected and
// what came.
Result<std::vector<KeySpec>> parse_key_file(std::string_view text);

}  // namespace quire::server
