// These functions find the models of a folder: each folder in it that holds a checkpoint, and each
// .gguf file.
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
  int64_t file_bytes = 0;  // of the weights
};

// Returns the models in the order of their names. A folder needs config.json or a .gguf file. The
// parts of a .gguf (NAME-00001-of-00003.gguf) are one model. kInvalidArgument: there is no such
// folder, or two models have the same name.
Result<std::vector<FoundModel>> find_models(const std::string& directory);

// Maps other names of models to their names.
using ModelAliases = std::map<std::string, std::string, std::less<>>;
// Reads texts NAME=MODEL. kInvalidArgument: a text has another form, or a name occurs twice.
Result<ModelAliases> parse_aliases(const std::vector<std::string>& texts);

}  // namespace quire::server
