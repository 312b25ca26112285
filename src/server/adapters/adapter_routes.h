// The routes by which clients load and unload adapters while the server runs: vLLM's, under its
// names. ServerOptions::lora_dir opens them.
#pragma once

#include <string>

#include "base/result.h"
#include "server/http/http_types.h"
#include "server/http/server_options.h"
#include "server/openai/served_model.h"

namespace quire::server {

// kInvalidArgument: the model itself is served under the name of an adapter.
Status check_adapter_names(const ServedModel& served);

// The answers to /v1/load_lora_adapter and /v1/unload_lora_adapter. They read files: not for the IO
// threads.
HttpResponse load_adapter(const HttpRequest& request, const ServedModel& served,
                          const ServerOptions& options);
HttpResponse unload_adapter(const HttpRequest& request, const ServedModel& served,
                            const ServerOptions& options);

// The folder that `path` names, relative to `directory` unless it is absolute, with every link
// followed. kInvalidArgument: it does not lie in `directory`, or a file of an adapter there is a
// link that leads out of it.
Result<std::string> adapter_folder(const std::string& directory, const std::string& path);

// Families about what is loaded, in the text format of /metrics; empty without adapters.
std::string adapter_metrics_text(const ServedModel& served);

}  // namespace quire::server
