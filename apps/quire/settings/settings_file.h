// This is the parser of the file of `quire serve --config`, which holds flags as YAML.
//
//   model: /srv/models/Qwen3-0.6B
//   port: 8000
//   api-key: [first, second]
//   speculative-config: {method: suffix}
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::cli {

// A file that may never end, such as a device, is read no further than this.
inline constexpr size_t kMaxSettingsBytes = size_t{1} << 20;

struct FileSetting {
  std::string name;                 // of a flag, without the dashes in front
  std::vector<std::string> values;  // as the command line has them; mappings are JSON texts
  int line = 0;                     // from 1
};

// `text` is the content of the file, and `path` its name for errors. kInvalidArgument: the text is
// not YAML, or not a mapping from names to values.
Result<std::vector<FileSetting>> parse_settings(std::string_view text, std::string_view path);

// The file of --models-config holds the same for each of several models, by their names.
//
//   qwen3-4b:
//     max-model-len: 8192
//     lora-modules: [sql=/adapters/sql]
using ModelSettings = std::map<std::string, std::vector<FileSetting>>;
Result<ModelSettings> parse_model_settings(std::string_view text, std::string_view path);

}  // namespace quire::cli
