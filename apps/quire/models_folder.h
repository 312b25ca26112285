// These functions open the models of --models-dir.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/models/model_shelf.h"

namespace quire::cli {

struct ServeFlags;

struct ModelsFolderFlags {
  std::string directory;  // empty: one model is served
  std::string config;     // flags of single models; empty: none has any
  int32_t max_loaded = 3;
  int64_t max_bytes = 0;      // of all that are in memory; 0: the share of free memory
  int64_t keep_alive_s = -1;  // -1: until the place is wanted
  int64_t load_timeout_s = 300;
};

// kInvalidArgument: the folder or the aliases are not valid, or a flag was given that only suits a
// server of one model. `flags` must outlive the shelf.
Result<std::shared_ptr<server::ModelShelf>> open_models_folder(const ServeFlags& flags);

}  // namespace quire::cli
