#include "server/ollama/ollama_door.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "engine/adapters/adapter_registry.h"
#include "engine/async_engine.h"
#include "server/door/server_state.h"
#include "server/http/auth.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/json/json_response.h"
#include "server/models/model_host.h"
#include "server/ollama/keep_alive.h"
#include "server/ollama/ollama_request.h"
#include "server/ollama/ollama_writer.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Passes keep_alive to the model host and removes the field from the body.
ApiCheck take_keep_alive(json::object& body, const PrepareContext& context) {
  json::value* const value = find_member(body, "keep_alive");
  if (value == nullptr) return std::nullopt;
  const ApiResult<std::optional<int64_t>> keep_alive_us = parse_keep_alive_us(*value);
  if (!keep_alive_us.ok()) return keep_alive_us.error();
  if (context.server != nullptr)
    context.server->models->keep(context.model.names.front(), keep_alive_us.value());
  body.erase("keep_alive");
  return std::nullopt;
}

// A request without a prompt or messages only asks for the model to be loaded, which has happened
// before this.
PreparedCall loaded_answer(const json::object& body, OllamaAnswer kind,
                           const PrepareContext& context) {
  const std::string_view name = text_member(body, "model");
  json::object answer{{"model", name.empty() ? context.model.names.front() : name},
                      {"created_at", ollama_time(context.created_s)},
                      {"done", true},
                      {"done_reason", "load"}};
  if (kind == OllamaAnswer::kChat) {
    answer["message"] = json::object{{"role", "assistant"}, {"content", ""}};
  } else {
    answer["response"] = "";
  }
  PreparedCall call;
  call.at_once = json_response(answer);
  return call;
}

bool says_nothing(const json::object& body, OllamaAnswer kind) {
  const json::value* const said =
      find_member(body, kind == OllamaAnswer::kChat ? "messages" : "prompt");
  if (said == nullptr) return kind == OllamaAnswer::kGenerate && !body.contains("images");
  if (kind == OllamaAnswer::kChat) return said->is_array() && said->get_array().empty();
  return said->is_string() && said->get_string().empty() && !body.contains("images");
}

// Does what both routes share: an answer is a stream by default, and has the times of its tokens.
ApiResult<PreparedCall> prepare(json::object body, const HttpRequest& request, Endpoint endpoint,
                                OllamaAnswer kind, std::span<const Field> table,
                                const PrepareContext& context) {
  if (ApiCheck error = take_keep_alive(body, context)) return *error;
  if (says_nothing(body, kind)) {
    const std::string asked =
        ollama_model_name(std::string(text_member(body, "model")), context.model);
    if (ApiCheck error = check_model(asked, context.model)) return *error;
    return loaded_answer(body, kind, context);
  }
  ApiResult<ParsedFields> parsed =
      read_fields(std::move(body), endpoint, context.options.strict_fields, table);
  if (!parsed.ok()) return parsed.error();
  RequestFields& f = parsed.value().fields;
  f.stream = f.stream.value_or(true);
  f.return_timings = true;
  if (f.model) f.model = ollama_model_name(*f.model, context.model);
  if (endpoint == Endpoint::kCompletions && !f.max_tokens) {
    f.max_tokens = context.model.max_model_len;
  }
  if (ApiCheck error = check_fields(f, endpoint)) return *error;
  ApiResult<PreparedCall> call =
      prepare_fields(std::move(parsed).value(), request, endpoint, "ollama-", context);
  if (!call.ok()) return call;
  const ResponseShape& shape = call.value().shape;
  call.value().writer = std::make_unique<OllamaWriter>(kind, shape.stream, shape.model,
                                                       ollama_time(context.created_s));
  return call;
}

ApiResult<PreparedCall> prepare_chat(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  return prepare(std::move(body).value(), request, Endpoint::kChat, OllamaAnswer::kChat,
                 ollama_chat_field_table(), context);
}

ApiResult<PreparedCall> prepare_generate(const HttpRequest& request,
                                         const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  const json::value* const raw = body.value().if_contains("raw");
  if (raw != nullptr && !raw->is_null() && !raw->is_bool()) {
    return field_error("raw", fmt::format("expected true or false, got {}", describe(*raw)));
  }
  const bool is_raw = raw != nullptr && raw->is_bool() && raw->get_bool();
  if (is_raw && find_member(body.value(), "images") != nullptr) {
    return field_error("images", "expected none with raw; the chat template places images");
  }
  return prepare(std::move(body).value(), request,
                 is_raw ? Endpoint::kCompletions : Endpoint::kChat, OllamaAnswer::kGenerate,
                 ollama_generate_field_table(), context);
}

json::object details_of(const ModelStatus& status) {
  return {
      {"parent_model", ""},   {"format", status.path.ends_with(".gguf") ? "gguf" : "safetensors"},
      {"family", "quire"},    {"families", json::array{"quire"}},
      {"parameter_size", ""}, {"quantization_level", ""}};
}

json::object card_of(const std::string& name, const ModelStatus& status) {
  return {{"name", name},
          {"model", name},
          {"modified_at", ollama_time(status.created_s)},
          {"size", status.file_bytes},
          {"digest", key_digest(status.path.empty() ? name : status.path)},
          {"details", details_of(status)}};
}

HttpResponse tags(const HttpRequest&, const PrepareContext& context) {
  json::array models;
  for (const ModelStatus& status : context.server->models->list()) {
    models.push_back(card_of(status.name, status));
    for (const std::string& alias : status.aliases) models.push_back(card_of(alias, status));
    if (status.loaded == nullptr || status.loaded->model.adapters == nullptr) continue;
    for (const LoadedAdapterInfo& loaded : status.loaded->model.adapters->list())
      models.push_back(card_of(loaded.source.name, status));
  }
  return json_response({{"models", std::move(models)}});
}

// Lists the models that are in memory.
HttpResponse running(const HttpRequest&, const PrepareContext& context) {
  json::array models;
  const ModelHost& host = *context.server->models;
  for (const ModelStatus& status : host.list()) {
    if (status.loaded == nullptr) continue;
    json::object card = card_of(status.name, status);
    card.erase("modified_at");
    card["expires_at"] = status.expires_us
                             ? ollama_time(context.created_s +
                                           (*status.expires_us - host.clock().now_us()) / 1'000'000)
                             : std::string("9999-12-31T23:59:59Z");
    card["size"] = status.bytes;
    card["size_vram"] = 0;
    card["context_length"] = status.loaded->model.max_model_len;
    models.push_back(std::move(card));
  }
  return json_response({{"models", std::move(models)}});
}

// Little is known about a model before it is loaded.
json::object description_of(const ModelStatus& status) {
  json::array capabilities;
  json::object model_info{{"general.architecture", "quire"}};
  if (status.loaded != nullptr) {
    const ServedModel& model = status.loaded->model;
    const ReplyFormat& replies = status.loaded->options.reply_format;
    const ExecutorInfo info = model.engine->model_info();
    if (info.generates && !info.media.needs_recording()) capabilities.push_back("completion");
    if (info.pooling.any()) capabilities.push_back("embedding");
    if (replies.dialect != nullptr) capabilities.push_back("tools");
    if (replies.reasoning != nullptr) capabilities.push_back("thinking");
    if (model.images != nullptr) capabilities.push_back("vision");
    if (model.speech != nullptr) capabilities.push_back("audio");
    model_info["quire.context_length"] = model.max_model_len;
    model_info["quire.vocab_size"] = model.vocab_size;
  }
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", ""},
          {"modified_at", ollama_time(status.created_s)},
          {"details", details_of(status)},
          {"model_info", std::move(model_info)},
          {"capabilities", std::move(capabilities)}};
}

bool is_called(const ModelStatus& status, std::string_view name) {
  const auto is = [&](const std::string& known) {
    return known == name || (name.starts_with(known) && name.substr(known.size()) == ":latest");
  };
  if (is(status.name) || std::any_of(status.aliases.begin(), status.aliases.end(), is)) return true;
  return status.loaded != nullptr && status.loaded->model.adapters != nullptr &&
         status.loaded->model.adapters->find(std::string(name)) != nullptr;
}

HttpResponse show(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return ollama_error_response(body.error());
  const json::value* name = body.value().if_contains("model");
  if (name == nullptr) name = body.value().if_contains("name");  // older clients use this name
  if (name == nullptr || !name->is_string()) {
    return ollama_error_response(field_error(
        "model",
        fmt::format("expected a name, got {}", name != nullptr ? describe(*name) : "none")));
  }
  const std::string_view asked = name->get_string();
  const std::vector<ModelStatus> all = context.server->models->list();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const ModelStatus& status) { return is_called(status, asked); });
  if (found != all.end()) return json_response(description_of(*found));
  ApiError error = api_error(404, fmt::format("the model {} does not exist", in_quotes(asked)));
  error.param = "model";
  return ollama_error_response(error);
}

// Clients compare this with the version that has the features they need. Quire has the API of this
// version.
HttpResponse version(const HttpRequest&, const PrepareContext&) {
  return json_response({{"version", "0.12.0"}});
}

}  // namespace

const Door kOllamaChatDoor{&prepare_chat, nullptr, nullptr, &ollama_error_response};
const Door kOllamaGenerateDoor{&prepare_generate, nullptr, nullptr, &ollama_error_response};

namespace {

constexpr Door kTagsDoor{nullptr, &tags, nullptr, &ollama_error_response};
constexpr Door kPsDoor{nullptr, &running, nullptr, &ollama_error_response};
constexpr Door kShowDoor{nullptr, &show, nullptr, &ollama_error_response};
constexpr Door kVersionDoor{nullptr, &version, nullptr, &ollama_error_response};
constexpr Door kOllamaEmbedDoor{nullptr, nullptr, nullptr, &ollama_error_response};

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kOllamaRoutes[] = {
    {"/api/chat", "POST", K::kWork, M::kGeneration, kOllamaChatDoor,
     "Answer a conversation, as Ollama's."},
    {"/api/generate", "POST", K::kWork, M::kGeneration, kOllamaGenerateDoor,
     "Answer or continue a text, as Ollama's."},
    {"/api/embed", "POST", K::kWork, M::kPooling, kOllamaEmbedDoor,
     "Vectors of texts, as Ollama's."},
    {"/api/tags", "GET", K::kGuarded, M::kInline, kTagsDoor, "The served models, as Ollama's.",
     S::kNone, RouteModel::kNone},
    {"/api/ps", "GET", K::kGuarded, M::kInline, kPsDoor, "The models that are loaded, as Ollama's.",
     S::kNone, RouteModel::kNone},
    {"/api/show", "POST", K::kGuarded, M::kBySize, kShowDoor,
     "What a model is and can do, as Ollama's.", S::kNone, RouteModel::kNone},
    {"/api/version", "GET", K::kGuarded, M::kInline, kVersionDoor,
     "The version of Ollama's API that is spoken.", S::kNone, RouteModel::kNone},
};

}  // namespace

std::span<const Route> ollama_routes() { return kOllamaRoutes; }

}  // namespace quire::server
