// ModelsConfig holds the flags of single models of --models-dir, which the file of --models-config
// gives.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "quire/serve_flags.h"
#include "quire/settings/settings_file.h"
#include "server/models/models_dir.h"

namespace quire::cli {

class ModelsConfig {
 public:
  // With an empty `path` no model has flags of its own. kNotFound: there is no such file.
  // kInvalidArgument: the file is not as settings/settings_file.h describes it.
  static Result<ModelsConfig> read(const std::string& path);

  // Returns `flags` with the changes that the file has for `model`. kInvalidArgument: the file
  // names something that is no flag of a model, or gives a flag a value that it cannot have.
  Result<ServeFlags> flags_of(const std::string& model, const ServeFlags& flags) const;
  // Returns the adapters that the file gives to its models, by name. kInvalidArgument: as for
  // flags_of(), or two adapters have the same name.
  Result<server::ModelAliases> adapters(const ServeFlags& flags) const;

 private:
  ModelsConfig(std::string path, ModelSettings models)
      : path_(std::move(path)), models_(std::move(models)) {}

  std::string path_;
  ModelSettings models_;
};

}  // namespace quire::cli
