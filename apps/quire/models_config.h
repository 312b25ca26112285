// The flags that single models of --models-dir have, as --models-config names them.
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
  // Empty `path`: no model has flags of its own. kNotFound, kInvalidArgument: the file cannot be read,
  // or is no such file.
  static Result<ModelsConfig> read(const std::string& path);

  // Returns `flags` changed by what the file says about `model`. kInvalidArgument: the file names
  // what is no flag of a model, or gives it a value that it cannot have.
  Result<ServeFlags> flags_of(const std::string& model, const ServeFlags& flags) const;
  // Returns the adapters that the file's models bring, by name. kInvalidArgument: as for
  // flags_of(), or two adapters have one name.
  Result<server::ModelAliases> adapters(const ServeFlags& flags) const;

 private:
  ModelsConfig(std::string path, ModelSettings models)
      : path_(std::move(path)), models_(std::move(models)) {}

  std::string path_;
  ModelSettings models_;
};

}  // namespace quire::cli
