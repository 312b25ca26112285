// The routes by which clients load and unload adapters while the server runs: vLLM's, under its
// names. ServerOptions::lora_dir opens them.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "server/door/route.h"

namespace quire::server {

// kInvalidArgument: the model itself is served under the name of an adapter.
Status check_adapter_names(const ServedModel& served);

// /v1/load_lora_adapter and /v1/unload_lora_adapter.
std::span<const Route> adapter_routes();

// Returns the folder that `path` names, relative to `directory` unless it is absolute, with every
// link followed. kInvalidArgument: it does not lie in `directory`, or a file of an adapter there is
// a link that leads out of it.
Result<std::string> adapter_folder(const std::string& directory, const std::string& path);

// Families about what is loaded, in the text format of /metrics; empty without adapters.
std::string adapter_metrics_text(const ServedModel& served);

}  // namespace quire::server
