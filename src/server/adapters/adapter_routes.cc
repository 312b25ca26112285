#include "server/adapters/adapter_routes.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/adapters/adapter_registry.h"
#include "server/http/metrics_text.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/openai/request_fields.h"

namespace quire::server {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// Returns an error of the type that vLLM gives to mistakes of clients in these routes.
ApiError user_error(std::string_view param, std::string message) {
  ApiError error = api_error(400, std::move(message));
  error.type = "InvalidUserInput";
  error.param = std::string(param);
  return error;
}

bool lies_in(const fs::path& directory, const fs::path& path) {
  const auto [end, at] =
      std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end();
}

struct AdapterFields {
  std::string name;
  std::string path;
  bool replaces = false;
  std::string warning;
};

// Gives an error the type that vLLM uses in these routes.
ApiCheck as_user_error(ApiCheck error) {
  if (error) error->type = "InvalidUserInput";
  return error;
}

ApiResult<AdapterFields> read_fields(const HttpRequest& request, const ServerOptions& options) {
  constexpr std::string_view kNames[] = {"lora_name", "lora_path", "load_inplace",
                                         "is_3d_lora_weight", "lora_int_id"};
  ApiResult<json::object> parsed = parse_body(request, options.limits);
  if (!parsed.ok()) return parsed.error();
  const json::object& body = parsed.value();
  UnknownFields unknown(options.strict_fields);
  for (const auto& member : body) {
    if (std::find(std::begin(kNames), std::end(kNames), std::string_view(member.key())) !=
        std::end(kNames)) {
      continue;
    }
    if (ApiCheck error = unknown.add(member.key())) return *error;
  }
  AdapterFields fields{.warning = unknown.warning()};
  bool has_3d_weights = false;
  if (ApiCheck error = as_user_error(read_text(body, "lora_name", fields.name))) return *error;
  if (ApiCheck error = as_user_error(read_text(body, "lora_path", fields.path))) return *error;
  if (ApiCheck error = as_user_error(read_flag(body, "load_inplace", fields.replaces)))
    return *error;
  if (ApiCheck error = as_user_error(read_flag(body, "is_3d_lora_weight", has_3d_weights)))
    return *error;
  if (!has_3d_weights) return fields;
  return unsupported_field("is_3d_lora_weight", "adapters of experts are not supported");
}

HttpResponse success(const AdapterFields& fields, std::string_view what) {
  HttpResponse response{
      200,
      "text/plain; charset=utf-8",
      fmt::format("Success: LoRA adapter '{}' {} successfully.", fields.name, what),
      {}};
  if (!fields.warning.empty()) response.headers.emplace_back(kWarningHeader, fields.warning);
  return response;
}

}  // namespace

Status check_adapter_names(const ServedModel& served) {
  if (served.adapters == nullptr) return {};
  for (const LoadedAdapterInfo& loaded : served.adapters->list()) {
    if (!served.is_named(loaded.source.name)) continue;
    return invalid_argument("--lora-modules: expected other names than the model's own, got {}",
                            loaded.source.name);
  }
  return {};
}

Result<std::string> adapter_folder(const std::string& directory, const std::string& path) {
  const Status outside =
      invalid_argument("lora_path: expected a folder inside of this server's --lora-dir");
  if (path.empty() || path.find('\0') != path.npos) return outside;
  std::error_code ec;
  const fs::path root = fs::canonical(directory, ec);
  if (ec) return not_found("--lora-dir: there is no folder {}", directory);
  const fs::path folder = fs::weakly_canonical(root / path, ec);
  // The folder that contains the adapters is no adapter itself.
  if (ec || !lies_in(root, folder) || folder == root) return outside;
  for (const char* const file : {"adapter_config.json", "adapter_model.safetensors"}) {
    const fs::path target = fs::weakly_canonical(folder / file, ec);
    if (ec || !lies_in(root, target)) return outside;
  }
  return folder.string();
}

namespace {

HttpResponse load_adapter(const HttpRequest& request, const PrepareContext& context) {
  const ServedModel& served = context.model;
  const ServerOptions& options = context.options;
  const ApiResult<AdapterFields> read = read_fields(request, options);
  if (!read.ok()) return error_response(read.error());
  const AdapterFields& fields = read.value();
  if (fields.name.empty() || fields.path.empty()) {
    return error_response(user_error(fields.name.empty() ? "lora_name" : "lora_path",
                                     "Both 'lora_name' and 'lora_path' must be provided."));
  }
  if (const Status status = check_adapter_name(fields.name); !status.ok())
    return error_response(user_error("lora_name", "lora_name: " + status.message()));
  if (served.is_named(fields.name)) {
    return error_response(
        user_error("lora_name", fmt::format("lora_name: {} is the name of the served model itself",
                                            server::in_quotes(fields.name))));
  }
  const Result<std::string> folder = adapter_folder(options.lora_dir, fields.path);
  if (!folder.ok()) return error_response(from_status(folder.status()));
  if (!fields.replaces && served.adapters->find(fields.name) != nullptr) {
    return error_response(user_error(
        "lora_name",
        fmt::format("The lora adapter {} has already been loaded. If you want to load the adapter "
                    "in place, set 'load_inplace' to True.",
                    server::in_quotes(fields.name))));
  }
  const Status status = served.adapters->load(
      {fields.name, *folder}, fields.replaces ? IfLoaded::kReplace : IfLoaded::kRefuse);
  if (status.ok()) return success(fields, "added");
  const bool is_broken = status.code() == StatusCode::kDataLoss;  // an error of the file
  return error_response(is_broken ? api_error(400, status.message()) : from_status(status));
}

HttpResponse unload_adapter(const HttpRequest& request, const PrepareContext& context) {
  const ServedModel& served = context.model;
  const ApiResult<AdapterFields> read = read_fields(request, context.options);
  if (!read.ok()) return error_response(read.error());
  const AdapterFields& fields = read.value();
  if (fields.name.empty()) {
    return error_response(
        user_error("lora_name", "'lora_name' needs to be provided to unload a LoRA adapter."));
  }
  if (served.adapters->unload(fields.name).ok()) return success(fields, "removed");
  ApiError error = api_error(
      404, fmt::format("The lora adapter {} cannot be found.", server::in_quotes(fields.name)));
  error.param = "lora_name";
  return error_response(error);
}

}  // namespace

std::string adapter_metrics_text(const ServedModel& served) {
  if (served.adapters == nullptr) return {};
  MetricsWriter out;
  const std::vector<MetricLabel> model = {{"model_name", served.names.front()}};
  out.family("quire:lora_adapters_loaded", "gauge", "Adapters in memory that requests may name.");
  out.sample("quire:lora_adapters_loaded", model, served.adapters->num_loaded());
  out.family("quire:lora_adapters_max", "gauge", "The most that there may be (--max-cpu-loras).");
  out.sample("quire:lora_adapters_max", model, served.adapters->max_loaded());
  return out.take();
}

namespace {

constexpr Door kLoadDoor = page_door(&load_adapter);
constexpr Door kUnloadDoor = page_door(&unload_adapter);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kAdapterRoutes[] = {
    {"/v1/load_lora_adapter", "POST", K::kGuarded, M::kWorker, kLoadDoor,
     "Load an adapter out of the server's folder, or replace one (--lora-dir).", S::kLoraDir},
    {"/v1/unload_lora_adapter", "POST", K::kGuarded, M::kWorker, kUnloadDoor,
     "Unload an adapter; requests that use it end as they would have (--lora-dir).", S::kLoraDir},
};

}  // namespace

std::span<const Route> adapter_routes() { return kAdapterRoutes; }

}  // namespace quire::server
