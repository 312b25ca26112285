#include "server/gate.h"

#include <utility>

#include "engine/async_engine.h"
#include "server/keys/key_book.h"
#include "server/openai/prepare.h"
#include "server/routes/route_table.h"

namespace quire::server {
namespace {

// Prints an error as the route's door does; OpenAI's form is used when there is no route.
HttpResponse refuse(const Route* route, const ApiError& error) {
  return route != nullptr ? route->door.refuse(error) : error_response(error);
}

}  // namespace

ApiCheck check_serves(const Route& route, const ServedModel& model) {
  const ExecutorInfo info = model.engine->model_info();
  const std::string& name = model.names.front();
  if (route.mode == RouteMode::kSpeech && model.speech == nullptr)
    return api_error(404,
                     fmt::format("the model {} hears nothing: it takes text", in_quotes(name)));
  if (route.mode == RouteMode::kGeneration && info.media.needs_recording()) {
    return api_error(404, fmt::format("the model {} writes down what is said: it serves "
                                      "/v1/audio/transcriptions and /v1/audio/translations",
                                      in_quotes(name)));
  }
  if (route.mode == RouteMode::kGeneration && !info.generates) {
    return api_error(404,
                     fmt::format("the model {} generates no text: it serves {}", in_quotes(name),
                                 info.pooling.embedding_size > 0
                                     ? "/v1/embeddings, /v2/embed, /pooling, /score and "
                                       "/rerank"
                                     : "/classify, /pooling, /score and /rerank"));
  }
  if (route.mode == RouteMode::kPooling && !info.pooling.any()) {
    return api_error(404, fmt::format("the model {} makes no embeddings or scores: it serves "
                                      "/v1/chat/completions and /v1/completions",
                                      in_quotes(name)));
  }
  return std::nullopt;
}

Gate::Gate(const ServerOptions& options, const ServerState& state)
    : options_(options), state_(state), keys_(options.api_keys), cors_(options.cors) {}

std::string_view Gate::local_path(std::string_view path) const {
  const std::string_view root = options_.root_path;
  if (root.empty() || !path.starts_with(root)) return path;
  const std::string_view rest = path.substr(root.size());
  if (rest.empty()) return "/";
  return rest.front() == '/' ? rest : path;  // "/rooted" does not lie under "/root"
}

const Route* Gate::route_of(std::string_view path) const {
  const Route* const route = find_route(local_path(path));
  return route != nullptr && is_on(route->needs) ? route : nullptr;
}

bool Gate::is_on(RouteSwitch needed) const {
  switch (needed) {
    case RouteSwitch::kDevEndpoints:
      return options_.enable_dev_endpoints;
    case RouteSwitch::kTokenizerInfo:
      return options_.enable_tokenizer_info;
    case RouteSwitch::kLoraDir:
      return !options_.lora_dir.empty() && state_.models->only() != nullptr &&
             state_.models->only()->model.adapters != nullptr;
    case RouteSwitch::kFilesDir:
      return state_.batches != nullptr;
    case RouteSwitch::kModelsDir:
      return state_.models->only() == nullptr;
    case RouteSwitch::kWebPage:
      return options_.web_page;
    case RouteSwitch::kNone:
      break;
  }
  return true;
}

bool Gate::allowed(const Route* route, const HttpRequest& head) const {
  if (!asks_for_keys() || (route != nullptr && route->kind == RouteKind::kOpen)) return true;
  if (route != nullptr && route->path == "/metrics" && !options_.guard_metrics) return true;
  if (state_.keys != nullptr && state_.keys->find(key_of(head)) != nullptr) return true;
  if (!keys_.required()) return false;
  // Anthropic's clients send the key in a header of its own.
  if (const auto key = head.header("X-Api-Key"); key && !head.header("Authorization")) {
    return keys_.allows(fmt::format("Bearer {}", *key));
  }
  return keys_.allows(head.header("Authorization"));
}

std::optional<ApiError> Gate::refusal(const HttpRequest& head, const Route* route) const {
  if (!allowed(route, head)) return api_error(401, "Unauthorized");
  if (route == nullptr) return api_error(404, "there is no such route; see /docs");
  if (!route->has_method(head.method)) {
    return api_error(405, fmt::format("expected {}", route->allow()));
  }
  if (route->kind != RouteKind::kWork) return std::nullopt;
  if (const ModelUse only = state_.models->only()) {
    if (ApiCheck error = check_serves(*route, only->model)) return error;
  }
  if (state_.is_draining.load()) {
    ApiError error = api_error(503, "the server is shutting down");
    error.retry_after_s = state_.models->retry_after_s();
    return error;
  }
  if (!state_.models->healthy()) return api_error(503, "the engine is not running");
  return std::nullopt;
}

std::optional<HttpResponse> Gate::stop(const HttpRequest& head) const {
  const Route* const route = route_of(head.path);
  if (head.method == "OPTIONS") return preflight(head, route);
  const std::optional<ApiError> error = refusal(head, route);
  if (!error) return std::nullopt;
  HttpResponse response = refuse(route, *error);
  if (error->status == 405) response.headers.emplace_back("Allow", route->allow());
  append_headers(response, answer_headers(head));
  return response;
}

HeaderList Gate::answer_headers(const HttpRequest& request) const {
  HeaderList headers;
  if (const Route* const route = route_of(request.path);
      route != nullptr && route->needs == RouteSwitch::kWebPage) {
    // Pages of other origins may not embed the answers.
    headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  } else {
    headers = cors_.answer_headers(request);
  }
  if (options_.enable_request_id_headers) {
    const auto id = request.header("X-Request-Id");
    headers.emplace_back("X-Request-Id", id && is_request_id(*id) ? std::string(*id) : random_id());
  }
  return headers;
}

HttpResponse Gate::preflight(const HttpRequest& head, const Route* route) const {
  HttpResponse response{204, "", "", answer_headers(head)};
  const std::string allow = route ? route->allow() : "GET, HEAD, POST, OPTIONS";
  response.headers.emplace_back("Allow", allow);
  if (find_header(response.headers, "Access-Control-Allow-Origin")) {
    append_headers(response, cors_.preflight_headers(head, allow));
  }
  return response;
}

}  // namespace quire::server
