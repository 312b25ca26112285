// These are vLLM's routes, under vLLM's names, by which clients load and unload adapters while the
// server runs. They exist only when ServerOptions::lora_dir is set.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "server/door/route.h"

namespace quire::server {

// kInvalidArgument: an adapter has the name of the served model itself.
Status check_adapter_names(const ServedModel& served);

// Returns /v1/load_lora_adapter and /v1/unload_lora_adapter.
std::span<const Route> adapter_routes();

// Returns the folder that `path` names, relative to `directory` unless it is absolute, with every
// link followed. kInvalidArgument: the folder is not inside `directory`, or a file of an adapter
// there is a link that leads out of it.
Result<std::string> adapter_folder(const std::string& directory, const std::string& path);

// Returns the metrics about loaded adapters, in the text format of /metrics; empty without
// adapters.
std::string adapter_metrics_text(const ServedModel& served);

}  // namespace quire::server
