#include "server/ollama/ollama_door.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "engine/adapters/adapter_registry.h"
#include "engine/async_engine.h"
#include "server/http/auth.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/ollama/ollama_request.h"
#include "server/ollama/ollama_writer.h"

namespace quire::server {
namespace {

namespace json = boost::json;

HttpResponse json_response(const json::object& body) {
  return {200, "application/json", json::serialize(body), {}};
}

// What is common to the two: an answer is a stream unless told otherwise, and tells its times.
ApiResult<PreparedCall> prepare(json::object body, const HttpRequest& request, Endpoint endpoint,
                                OllamaAnswer kind, std::span<const Field> table,
                                const PrepareContext& context) {
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

json::object details_of(const PrepareContext& context) {
  const std::string& root = context.model.root;
  return {{"parent_model", ""},   {"format", root.ends_with(".gguf") ? "gguf" : "safetensors"},
          {"family", "quire"},    {"families", json::array{"quire"}},
          {"parameter_size", ""}, {"quantization_level", ""}};
}

json::object card_of(const std::string& name, const PrepareContext& context) {
  return {{"name", name},
          {"model", name},
          {"modified_at", ollama_time(context.model.created_s)},
          {"size", 0},
          {"digest", key_digest(context.model.root.empty() ? name : context.model.root)},
          {"details", details_of(context)}};
}

HttpResponse tags(const HttpRequest&, const PrepareContext& context) {
  json::array models;
  for (const std::string& name : context.model.names) models.push_back(card_of(name, context));
  if (context.model.adapters != nullptr) {
    for (const LoadedAdapterInfo& loaded : context.model.adapters->list()) {
      models.push_back(card_of(loaded.source.name, context));
    }
  }
  return json_response({{"models", std::move(models)}});
}

// The models that are loaded: the one that is served.
HttpResponse running(const HttpRequest&, const PrepareContext& context) {
  json::object card = card_of(context.model.names.front(), context);
  card.erase("modified_at");
  card["expires_at"] = "9999-12-31T23:59:59Z";
  card["size_vram"] = 0;
  card["context_length"] = context.model.max_model_len;
  return json_response({{"models", json::array{std::move(card)}}});
}

HttpResponse show(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return ollama_error_response(body.error());
  const json::value* name = body.value().if_contains("model");
  if (name == nullptr) name = body.value().if_contains("name");  // of older clients
  if (name == nullptr || !name->is_string()) {
    return ollama_error_response(field_error(
        "model",
        fmt::format("expected a name, got {}", name != nullptr ? describe(*name) : "none")));
  }
  const std::string asked = ollama_model_name(std::string(name->get_string()), context.model);
  if (const ApiCheck error = check_model(asked, context.model)) {
    return ollama_error_response(*error);
  }
  const ExecutorInfo info = context.model.engine->model_info();
  json::array capabilities;
  if (info.generates) capabilities.push_back("completion");
  if (info.pooling.any()) capabilities.push_back("embedding");
  if (context.options.reply_format.dialect != nullptr) capabilities.push_back("tools");
  if (context.options.reply_format.reasoning != nullptr) capabilities.push_back("thinking");
  if (context.model.images != nullptr) capabilities.push_back("vision");
  json::object model_info{{"general.architecture", "quire"},
                          {"quire.context_length", context.model.max_model_len},
                          {"quire.vocab_size", context.model.vocab_size}};
  return json_response({{"modelfile", ""},
                        {"parameters", ""},
                        {"template", ""},
                        {"modified_at", ollama_time(context.model.created_s)},
                        {"details", details_of(context)},
                        {"model_info", std::move(model_info)},
                        {"capabilities", std::move(capabilities)}});
}

// Clients compare it with the version that has what they need; this is the one whose API this is.
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

const Route kRoutes[] = {
    {"/api/chat", "POST", K::kWork, M::kGeneration, kOllamaChatDoor,
     "Answer a conversation, as Ollama's."},
    {"/api/generate", "POST", K::kWork, M::kGeneration, kOllamaGenerateDoor,
     "Answer or continue a text, as Ollama's."},
    {"/api/embed", "POST", K::kWork, M::kPooling, kOllamaEmbedDoor,
     "Vectors of texts, as Ollama's."},
    {"/api/tags", "GET", K::kGuarded, M::kInline, kTagsDoor, "The served models, as Ollama's."},
    {"/api/ps", "GET", K::kGuarded, M::kInline, kPsDoor, "The model that is loaded, as Ollama's."},
    {"/api/show", "POST", K::kGuarded, M::kBySize, kShowDoor,
     "What a model is and can do, as Ollama's."},
    {"/api/version", "GET", K::kGuarded, M::kInline, kVersionDoor,
     "The version of Ollama's API that is spoken."},
};

}  // namespace

std::span<const Route> ollama_routes() { return kRoutes; }

}  // namespace quire::server
