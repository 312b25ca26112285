// The models of a folder: each folder in it that holds a checkpoint, and each .gguf file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::server {

struct FoundModel {
  std::string name;
  std::string path;
  int64_t file_bytes = 0;  // of its weights
};

// In the order of their names. A folder needs config.json or a .gguf file; a .gguf in several parts
// (NAME-00001-of-00003.gguf) is one model. kInvalidArgument: there is no such folder, or two models
// have one name.
Result<std::vector<FoundModel>> find_models(const std::string& directory);

// Other names of models, by name.
using ModelAliases = std::map<std::string, std::string, std::less<>>;
// Of texts NAME=MODEL. kInvalidArgument: one is written otherwise, or a name stands twice.
Result<ModelAliases> parse_aliases(const std::vector<std::string>& texts);

}  // namespace quire::server
