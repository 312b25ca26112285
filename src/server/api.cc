#include "server/api.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "engine/async_engine.h"
#include "server/anthropic/messages_door.h"
#include "server/engine_control.h"
#include "server/files/files_door.h"
#include "server/generation/background_calls.h"
#include "server/generation/generation_call.h"
#include "server/keys/key_book.h"
#include "server/llama/llama_door.h"
#include "server/ollama/ollama_door.h"
#include "server/openai/tokenizer_codec.h"
#include "server/openapi.h"
#include "server/pooling/pooling_call.h"
#include "server/responses/response_store.h"
#include "server/responses/responses_door.h"

namespace quire::server {
namespace {

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

template <Endpoint endpoint>
ApiResult<PreparedCall> prepare_openai(const HttpRequest& request, const PrepareContext& context) {
  return prepare_call(request, endpoint, context);
}
constexpr Door kCompletions{&prepare_openai<Endpoint::kCompletions>, nullptr, nullptr,
                            &error_response};
constexpr Door kChat{&prepare_openai<Endpoint::kChat>, nullptr, nullptr, &error_response};
constexpr Door kPlain{nullptr, nullptr, nullptr,
                      &error_response};  // of all routes that are no door's

const Route kRoutes[] = {
    {"/v1/completions", "POST", K::kWork, M::kGeneration, nullptr, kCompletions,
     "Continue a text."},
    {"/v1/chat/completions", "POST", K::kWork, M::kGeneration, nullptr, kChat,
     "Answer a conversation."},
    {"/v1/messages", "POST", K::kWork, M::kGeneration, nullptr, kMessagesDoor,
     "Answer a conversation, as Anthropic's."},
    {"/v1/messages/count_tokens", "POST", K::kGuarded, M::kBySize, &Api::door_page, kMessagesDoor,
     "How many tokens a request of /v1/messages has."},
    {"/v1/responses", "POST", K::kWork, M::kGeneration, nullptr, kResponsesDoor,
     "Answer a conversation, as OpenAI's Responses API."},
    {"/v1/responses/input_tokens", "POST", K::kGuarded, M::kBySize, &Api::door_page, kResponsesDoor,
     "How many tokens a request of /v1/responses has."},
    {"/v1/responses/*", "GET POST DELETE", K::kGuarded, M::kDoor, nullptr, kResponsesDoor,
     "A response that is kept: read it or its stream (GET ID, ?stream=true&starting_after=N), its "
     "input (GET ID/input_items), cancel it (POST ID/cancel), forget it (DELETE ID)."},
    {"/api/chat", "POST", K::kWork, M::kGeneration, nullptr, kOllamaChatDoor,
     "Answer a conversation, as Ollama's."},
    {"/api/generate", "POST", K::kWork, M::kGeneration, nullptr, kOllamaGenerateDoor,
     "Answer or continue a text, as Ollama's."},
    {"/api/embed", "POST", K::kWork, M::kPooling, nullptr, kOllamaEmbedDoor,
     "Vectors of texts, as Ollama's."},
    {"/api/tags", "GET", K::kGuarded, M::kInline, &Api::door_page, kOllamaTagsDoor,
     "The served models, as Ollama's."},
    {"/api/ps", "GET", K::kGuarded, M::kInline, &Api::door_page, kOllamaPsDoor,
     "The model that is loaded, as Ollama's."},
    {"/api/show", "POST", K::kGuarded, M::kBySize, &Api::door_page, kOllamaShowDoor,
     "What a model is and can do, as Ollama's."},
    {"/api/version", "GET", K::kGuarded, M::kInline, &Api::door_page, kOllamaVersionDoor,
     "The version of Ollama's API that is spoken."},
    {"/completion", "POST", K::kWork, M::kGeneration, nullptr, kLlamaCompletionDoor,
     "Continue a text, as llama.cpp's."},
    {"/infill", "POST", K::kWork, M::kGeneration, nullptr, kLlamaInfillDoor,
     "The text between two others, as llama.cpp's."},
    {"/props", "GET", K::kGuarded, M::kWorker, &Api::door_page, kLlamaPropsDoor,
     "The served model and its defaults, as llama.cpp's."},
    {"/slots", "GET", K::kGuarded, M::kWorker, &Api::door_page, kLlamaSlotsDoor,
     "How many requests run, as llama.cpp's slots."},
    {"/v1/embeddings", "POST", K::kWork, M::kPooling, nullptr, kPlain,
     "Vectors of texts, as OpenAI's."},
    {"/v2/embed", "POST", K::kWork, M::kPooling, nullptr, kPlain, "Vectors of texts, as Cohere's."},
    {"/pooling", "POST", K::kWork, M::kPooling, nullptr, kPlain,
     "Vectors or scores of texts, or of each of their tokens."},
    {"/classify", "POST", K::kWork, M::kPooling, nullptr, kPlain,
     "The probabilities of labels of texts."},
    {"/score", "POST", K::kWork, M::kPooling, nullptr, kPlain,
     "How well pairs of texts go together."},
    {"/v1/score", "POST", K::kWork, M::kPooling, nullptr, kPlain, "As /score."},
    {"/rerank", "POST", K::kWork, M::kPooling, nullptr, kPlain,
     "Documents in the order in which they answer a query."},
    {"/v1/rerank", "POST", K::kWork, M::kPooling, nullptr, kPlain, "As /rerank."},
    {"/v2/rerank", "POST", K::kWork, M::kPooling, nullptr, kPlain, "As /rerank."},
    {"/v1/files", "GET POST", K::kGuarded, M::kWorker, &Api::files, kPlain,
     "The files that were uploaded, or one more, as a form (--files-dir).", S::kFilesDir},
    {"/v1/files/*", "GET DELETE", K::kGuarded, M::kWorker, &Api::files, kPlain,
     "One file: what is known of it, its bytes (GET ID/content), or remove it (--files-dir).",
     S::kFilesDir},
    {"/v1/batches", "GET POST", K::kGuarded, M::kWorker, &Api::files, kPlain,
     "The batches, or one more (--files-dir).", S::kFilesDir},
    {"/v1/batches/*", "GET POST", K::kGuarded, M::kWorker, &Api::files, kPlain,
     "One batch, or cancel it (POST ID/cancel) (--files-dir).", S::kFilesDir},
    {"/v1/models", "GET", K::kGuarded, M::kInline, &Api::models, kPlain, "The served models."},
    {"/v1/models/*", "GET", K::kGuarded, M::kInline, &Api::model_by_id, kPlain,
     "One served model."},
    {"/tokenize", "POST", K::kGuarded, M::kBySize, &Api::tokenize, kPlain,
     "Text or messages to token ids."},
    {"/detokenize", "POST", K::kGuarded, M::kBySize, &Api::detokenize, kPlain,
     "Token ids to text."},
    {"/health", "GET", K::kOpen, M::kInline, &Api::health, kPlain, "200 while the engine lives."},
    {"/ping", "GET POST", K::kOpen, M::kInline, &Api::health, kPlain, "As /health."},
    {"/live", "GET", K::kOpen, M::kInline, &Api::live, kPlain, "200 while the process answers."},
    {"/ready", "GET", K::kOpen, M::kInline, &Api::ready, kPlain, "200 while new work is taken."},
    {"/version", "GET", K::kGuarded, M::kInline, &Api::version, kPlain, "This program's version."},
    {"/load", "GET", K::kGuarded, M::kInline, &Api::load, kPlain,
     "Generations being answered now."},
    {"/metrics", "GET", K::kGuarded, M::kInline, &Api::metrics, kPlain, "Prometheus metrics."},
    {"/openapi.json", "GET", K::kGuarded, M::kInline, &Api::openapi, kPlain,
     "This API, described."},
    {"/docs", "GET", K::kGuarded, M::kInline, &Api::docs, kPlain, "This API, for people."},
    {"/quire/stats", "GET", K::kGuarded, M::kInline, &Api::quire_stats, kPlain,
     "Counters and recent latencies."},
    {"/quire/kv/blocks", "GET", K::kGuarded, M::kWorker, &Api::kv_blocks, kPlain,
     "Every KV block's state."},
    {"/quire/steps", "GET", K::kGuarded, M::kWorker, &Api::steps, kPlain,
     "The last engine steps on the roofline."},
    {"/quire/kv/explore", "POST", K::kGuarded, M::kWorker, &Api::kv_explore, kPlain,
     "Which prefix two prompts share."},
    {"/tokenizer_info", "GET", K::kGuarded, M::kInline, &Api::tokenizer_info, kPlain,
     "The tokenizer's configuration (--enable-tokenizer-info-endpoint).", S::kTokenizerInfo},
    {"/v1/load_lora_adapter", "POST", K::kGuarded, M::kWorker, &Api::adapters, kPlain,
     "Load an adapter out of the server's folder, or replace one (--lora-dir).", S::kLoraDir},
    {"/v1/unload_lora_adapter", "POST", K::kGuarded, M::kWorker, &Api::adapters, kPlain,
     "Unload an adapter; requests that use it end as they would have (--lora-dir).", S::kLoraDir},
    {"/pause", "POST", K::kGuarded, M::kPause, nullptr, kPlain,
     "Stop scheduling; mode: abort, wait or keep.", S::kDevEndpoints},
    {"/resume", "POST", K::kGuarded, M::kWorker, &Api::control, kPlain, "Go on after /pause.",
     S::kDevEndpoints},
    {"/is_paused", "GET", K::kGuarded, M::kWorker, &Api::control, kPlain,
     "Whether scheduling is stopped.", S::kDevEndpoints},
    {"/sleep", "POST", K::kGuarded, M::kPause, nullptr, kPlain,
     "Stop scheduling, drop the prefix cache and give the KV blocks' memory back; the weights "
     "stay. "
     "level: 1 or 2, which do the same.",
     S::kDevEndpoints},
    {"/wake_up", "POST", K::kGuarded, M::kWorker, &Api::control, kPlain, "End /sleep.",
     S::kDevEndpoints},
    {"/is_sleeping", "GET", K::kGuarded, M::kWorker, &Api::control, kPlain,
     "Whether the engine sleeps.", S::kDevEndpoints},
    {"/reset_prefix_cache", "POST", K::kGuarded, M::kWorker, &Api::control, kPlain,
     "Forget all cached prefixes; fails while requests run.", S::kDevEndpoints},
    {"/abort_requests", "POST", K::kGuarded, M::kWorker, &Api::control, kPlain,
     "End the requests named by request_ids, or all.", S::kDevEndpoints},
    {"/server_info", "GET", K::kGuarded, M::kWorker, &Api::control, kPlain,
     "The engine's configuration; config_format: text or json.", S::kDevEndpoints},
    {"/", "GET", K::kOpen, M::kInline, &Api::web, kPlain,
     "The web page; it asks for the key that its requests need."},
    {"/web/*", "GET", K::kOpen, M::kInline, &Api::web, kPlain, "Parts of the web page."},
};

const Route* find_exactly(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.path.back() == '*') {
      const std::string_view prefix = route.path.substr(0, route.path.size() - 1);
      if (path.size() > prefix.size() && path.substr(0, prefix.size()) == prefix) return &route;
    } else if (route.path == path) {
      return &route;
    }
  }
  return nullptr;
}

// A path with a slash too much at its end is the path without it.
const Route* find_route(std::string_view path) {
  const Route* const route = find_exactly(path);
  if (route != nullptr || path.size() < 3 || path.back() != '/') return route;
  return find_exactly(path.substr(0, path.size() - 1));
}

bool has_method(const Route& route, std::string_view method) {
  if (method == "HEAD") method = "GET";
  std::string_view rest = route.methods;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, space) == method) return true;
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return false;
}

std::string allow_header(const Route& route) {
  std::string allow;
  for (const std::string_view method : {"GET", "HEAD", "POST", "DELETE"}) {
    if (has_method(route, method)) allow += fmt::format("{}, ", method);
  }
  return allow + "OPTIONS";
}

void append_headers(HttpResponse& response, const HeaderList& headers) {
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
}

void refuse(const Door& door, const ApiError& error, const HeaderList& headers,
            ReplyChannel& reply) {
  HttpResponse response = door.refuse(error);
  append_headers(response, headers);
  reply.send(std::move(response));
}

}  // namespace

std::span<const Route> route_table() { return kRoutes; }

bool is_page(const Route& route) {
  return route.path == "/" || route.path.starts_with("/web/") || route.path.starts_with("/quire/");
}

namespace {

// What the model leaves to its engine, and how its chat answers are taken apart.
ServedModel completed(ServedModel model, const ReplyFormat& format) {
  const ExecutorInfo info = model.engine->model_info();
  if (model.codec == nullptr) model.codec = make_ids_only_codec(info.vocab_size);
  if (model.vocab_size <= 0) model.vocab_size = info.vocab_size;
  if (model.max_model_len <= 0) model.max_model_len = info.max_model_len;
  const auto bind = [&](const ReplyFormat& in_use) -> std::shared_ptr<const ReplySyntax> {
    if (in_use.plain()) return nullptr;
    return std::make_shared<ReplySyntax>(in_use, model.codec->mark_tokens());
  };
  model.reply_syntax = bind(format);
  model.reply_syntax_without_calls = bind(format.without_calls());
  return model;
}

}  // namespace

Api::Api(ServerOptions options, ServedModel model, WorkerPool& workers, ApiParts parts)
    : options_(std::move(options)),
      model_(completed(std::move(model), options_.reply_format)),
      workers_(workers),
      parts_(std::move(parts)),
      keys_(options_.api_keys),
      cors_(options_.cors),
      openapi_(openapi_document(options_, keys_.required() || parts_.keys != nullptr,
                                model_.vocab_size)),
      num_ongoing_(std::make_shared<std::atomic<int64_t>>(0)),
      held_answer_bytes_(std::make_shared<std::atomic<uint64_t>>(0)),
      responses_(std::make_shared<ResponseStore>(options_.limits.response_store_bytes,
                                                 options_.limits.response_ttl_s * 1'000'000)),
      background_(std::make_shared<BackgroundCalls>()) {}

std::string_view Api::local_path(std::string_view path) const {
  const std::string_view root = options_.root_path;
  if (root.empty() || !path.starts_with(root)) return path;
  const std::string_view rest = path.substr(root.size());
  if (rest.empty()) return "/";
  return rest.front() == '/' ? rest : path;  // "/rooted" does not lie under "/root"
}

const Route* Api::route_of(std::string_view path) const {
  const Route* const route = find_route(local_path(path));
  if (route != nullptr && is_page(*route) && !options_.web_page) return nullptr;
  if (route == nullptr || route->needs == RouteSwitch::kNone) return route;
  return is_on(route->needs) ? route : nullptr;
}

bool Api::is_on(RouteSwitch needed) const {
  switch (needed) {
    case RouteSwitch::kDevEndpoints:
      return options_.enable_dev_endpoints;
    case RouteSwitch::kTokenizerInfo:
      return options_.enable_tokenizer_info;
    case RouteSwitch::kLoraDir:
      return !options_.lora_dir.empty() && model_.adapters != nullptr;
    case RouteSwitch::kFilesDir:
      return parts_.batches != nullptr;
    case RouteSwitch::kNone:
      break;
  }
  return true;
}

bool Api::allowed(const Route* route, const HttpRequest& head) const {
  const bool needs_key = keys_.required() || parts_.keys != nullptr;
  if (!needs_key || (route != nullptr && route->kind == RouteKind::kOpen)) return true;
  if (route != nullptr && route->path == "/metrics" && !options_.guard_metrics) return true;
  if (parts_.keys != nullptr && parts_.keys->find(key_of(head)) != nullptr) return true;
  if (!keys_.required()) return false;
  // Anthropic's clients send the key alone.
  if (const auto key = head.header("X-Api-Key"); key && !head.header("Authorization")) {
    return keys_.allows(fmt::format("Bearer {}", *key));
  }
  return keys_.allows(head.header("Authorization"));
}

std::optional<ApiError> Api::refusal(const HttpRequest& head, const Route* route) const {
  if (!allowed(route, head)) return api_error(401, "Unauthorized");
  if (route == nullptr) return api_error(404, "there is no such route; see /docs");
  if (!has_method(*route, head.method)) {
    return api_error(405, fmt::format("expected {}", allow_header(*route)));
  }
  if (route->kind != RouteKind::kWork) return std::nullopt;
  if (std::optional<ApiError> error = wrong_model(*route)) return error;
  if (draining_.load()) {
    ApiError error = api_error(503, "the server is shutting down");
    error.retry_after_s = model_.engine->retry_after_s();
    return error;
  }
  if (!model_.engine->healthy()) return api_error(503, "the engine is not running");
  return std::nullopt;
}

std::optional<ApiError> Api::wrong_model(const Route& route) const {
  const ExecutorInfo info = model_.engine->model_info();
  const std::string& name = model_.names.front();
  if (route.mode == RouteMode::kGeneration && !info.generates) {
    return api_error(404, fmt::format("the model {} generates no text: it serves {}", quoted(name),
                                      info.pooling.embedding_size > 0
                                          ? "/v1/embeddings, /v2/embed, /pooling, /score and "
                                            "/rerank"
                                          : "/classify, /pooling, /score and /rerank"));
  }
  if (route.mode == RouteMode::kPooling && !info.pooling.any()) {
    return api_error(404, fmt::format("the model {} makes no embeddings or scores: it serves "
                                      "/v1/chat/completions and /v1/completions",
                                      quoted(name)));
  }
  return std::nullopt;
}

std::optional<HttpResponse> Api::on_head(const HttpRequest& head) {
  const Route* const route = route_of(head.path);
  if (head.method == "OPTIONS") return preflight(head, route);
  const std::optional<ApiError> error = refusal(head, route);
  if (!error) return std::nullopt;
  HttpResponse response = (route != nullptr ? route->door : kPlain).refuse(*error);
  if (error->status == 405) response.headers.emplace_back("Allow", allow_header(*route));
  append_headers(response, common_headers(head));
  return response;
}

HeaderList Api::common_headers(const HttpRequest& request) const {
  HeaderList headers;
  if (const Route* const route = route_of(request.path); route != nullptr && is_page(*route)) {
    // What is cached here is nobody else's business.
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

HttpResponse Api::preflight(const HttpRequest& head, const Route* route) const {
  HttpResponse response{204, "", "", common_headers(head)};
  const std::string allow = route ? allow_header(*route) : "GET, HEAD, POST, OPTIONS";
  response.headers.emplace_back("Allow", allow);
  if (find_header(response.headers, "Access-Control-Allow-Origin")) {
    append_headers(response, cors_.preflight_headers(head, allow));
  }
  return response;
}

void Api::on_request(HttpRequest request, std::shared_ptr<ReplyChannel> reply) {
  const Route* const route = route_of(request.path);
  QUIRE_CHECK(route != nullptr, "on_head() lets only known routes through");
  request.path = std::string(local_path(request.path));
  if (route->mode == RouteMode::kGeneration) {
    generate(*route, std::move(request), std::move(reply));
  } else if (route->mode == RouteMode::kPooling) {
    pool(*route, std::move(request), std::move(reply));
  } else if (route->mode == RouteMode::kDoor) {
    HeaderList headers = common_headers(request);
    const PrepareContext context = prepare_context(model_.engine->clock().now_us());
    route->door.serve(request, context, std::move(headers), std::move(reply));
  } else if (route->mode == RouteMode::kPause) {
    pause_engine(request, *model_.engine,
                 [headers = common_headers(request), reply](HttpResponse response) {
                   append_headers(response, headers);
                   auto shared = std::make_shared<HttpResponse>(std::move(response));
                   reply->poster()([shared, reply] { reply->send(std::move(*shared)); });
                 });
  } else {
    answer(*route, std::move(request), std::move(reply));
  }
}

void Api::on_worker(const Door& door, const std::shared_ptr<ReplyChannel>& reply,
                    HeaderList headers, std::function<std::function<void()>()> work) {
  const bool queued = workers_.try_post([post = reply->poster(), work = std::move(work)] {
    try {
      post(work());
    } catch (...) {  // the connection knows what to do about it, on its strand
      post([failure = std::current_exception()] { std::rethrow_exception(failure); });
    }
  });
  if (queued) return;
  ApiError error = api_error(429, "too many large requests are being read; try again");
  error.retry_after_s = 1;
  HttpResponse response = door.refuse(error);
  append_headers(response, headers);
  reply->send(std::move(response));
}

// Large bodies would hold up the other connections of the thread; so would the template of a
// request, whose size says nothing about its work.
bool Api::on_io_thread(const Route& route, const HttpRequest& request) const {
  if (route.mode == RouteMode::kInline) return true;
  if (route.mode == RouteMode::kWorker) return false;
  const bool may_bring_template =
      options_.trust_request_chat_template && route.path != "/v1/completions";
  return !may_bring_template && request.body.size() <= options_.limits.inline_body_bytes;
}

void Api::answer(const Route& route, HttpRequest request, std::shared_ptr<ReplyChannel> reply) {
  const auto respond = [this, &route](const HttpRequest& r) {
    HttpResponse response = (this->*route.answer)(r);
    append_headers(response, common_headers(r));
    return response;
  };
  if (on_io_thread(route, request)) {
    reply->send(respond(request));
    return;
  }
  HeaderList headers = common_headers(request);
  auto shared = std::make_shared<HttpRequest>(std::move(request));  // std::function copies
  on_worker(route.door, reply, std::move(headers),
            [respond, shared, reply]() -> std::function<void()> {
              auto response = std::make_shared<HttpResponse>(respond(*shared));
              return [response, reply] { reply->send(std::move(*response)); };
            });
}

PrepareContext Api::prepare_context(int64_t arrival_us) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {options_,    model_,
          arrival_us,  std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          random_id(), responses_};
}

void Api::warn_rarely(const PreparedCall& call) {
  // At most one line a second: a client that always sends the same field must not fill the log.
  const int64_t now_s = call.shape.created_s;
  if (last_warning_s_.exchange(now_s) == now_s) return;
  log_warn("{}: {}", call.shape.id, call.warning);
}

std::shared_ptr<void> Api::ongoing_guard(std::shared_ptr<KeyUse> use) {
  num_ongoing_->fetch_add(1);
  return {nullptr, [count = num_ongoing_, use = std::move(use)](void*) mutable {
            use.reset();
            count->fetch_sub(1);
          }};
}

ApiResult<std::shared_ptr<KeyUse>> Api::enter(HttpRequest& request, HeaderList& headers) const {
  const auto account = parts_.keys == nullptr ? nullptr : parts_.keys->find(key_of(request));
  if (account == nullptr) return std::shared_ptr<KeyUse>();
  if (const auto priority = account->priority(); priority && !request.header("X-Vllm-Priority")) {
    request.headers.emplace_back("X-Vllm-Priority", std::to_string(*priority));
  }
  return account->enter(now_us(), headers);
}

void Api::generate(const Route& route, HttpRequest request, std::shared_ptr<ReplyChannel> reply) {
  const int64_t arrival_us = model_.engine->clock().now_us();
  HeaderList headers = common_headers(request);
  if (auto report = load_report(request, *model_.engine)) {
    headers.emplace_back("endpoint-load-metrics", std::move(*report));
  }
  const Door& door = route.door;
  const ApiResult<std::shared_ptr<KeyUse>> entered = enter(request, headers);
  if (!entered.ok()) return refuse(door, entered.error(), headers, *reply);
  const std::shared_ptr<KeyUse> use = entered.value();
  auto guard = ongoing_guard(use);
  const auto prepare = [this, &door, arrival_us](const HttpRequest& r) {
    return door.prepare(r, prepare_context(arrival_us));
  };
  const auto proceed = [this, &door, headers, guard, use, reply](ApiResult<PreparedCall> prepared) {
    if (!prepared.ok()) return refuse(door, prepared.error(), headers, *reply);
    GenerationCall::Options options{headers, guard, options_.limits, held_answer_bytes_};
    if (use != nullptr) {
      const Clock& clock = model_.engine->clock();
      for (const GenerationRequest& r : prepared.value().requests) {
        use->charge(KeyUse::kPrompt, std::ssize(r.prompt_token_ids), clock.now_us());
      }
      options.on_tokens = [use, &clock](int64_t num_tokens) {
        use->charge(KeyUse::kOutput, num_tokens, clock.now_us());
      };
    }
    if (!prepared.value().warning.empty()) {
      options.headers.emplace_back(kWarningHeader, prepared.value().warning);
      warn_rarely(prepared.value());
    }
    if (prepared.value().detached != nullptr) {
      background_->run(reply, std::move(prepared).value(), *model_.engine, std::move(options));
    } else {
      GenerationCall::run(reply, std::move(prepared).value(), *model_.engine, std::move(options));
    }
  };
  if (on_io_thread(route, request)) {
    proceed(prepare(request));
    return;
  }
  auto shared = std::make_shared<HttpRequest>(std::move(request));  // std::function copies
  on_worker(route.door, reply, headers, [prepare, proceed, shared]() -> std::function<void()> {
    auto prepared = std::make_shared<ApiResult<PreparedCall>>(prepare(*shared));
    return [proceed, prepared] { proceed(std::move(*prepared)); };
  });
}

void Api::pool(const Route& route, HttpRequest request, std::shared_ptr<ReplyChannel> reply) {
  const int64_t arrival_us = model_.engine->clock().now_us();
  HeaderList headers = common_headers(request);
  const ApiResult<std::shared_ptr<KeyUse>> entered = enter(request, headers);
  if (!entered.ok()) return refuse(route.door, entered.error(), headers, *reply);
  const std::shared_ptr<KeyUse> use = entered.value();
  auto guard = ongoing_guard(use);
  const auto prepare = [this, arrival_us](const HttpRequest& r) {
    return prepare_pooling(r, prepare_context(arrival_us));
  };
  const auto proceed = [this, &door = route.door, headers, guard, use,
                        reply](ApiResult<PreparedPooling> prepared) {
    if (!prepared.ok()) return refuse(door, prepared.error(), headers, *reply);
    if (use != nullptr) use->charge(KeyUse::kPrompt, prepared.value().num_prompt_tokens, now_us());
    PoolingCall::Options options{headers, guard, model_.labels, door.refuse};
    if (!prepared.value().warning.empty())
      options.headers.emplace_back(kWarningHeader, prepared.value().warning);
    PoolingCall::run(reply, std::move(prepared).value(), *model_.engine, std::move(options));
  };
  if (on_io_thread(route, request)) return proceed(prepare(request));
  auto shared = std::make_shared<HttpRequest>(std::move(request));  // std::function copies
  on_worker(route.door, reply, headers, [prepare, proceed, shared]() -> std::function<void()> {
    auto prepared = std::make_shared<ApiResult<PreparedPooling>>(prepare(*shared));
    return [proceed, prepared] { proceed(std::move(*prepared)); };
  });
}

HttpResponse Api::files(const HttpRequest& request) const {
  const FilesContext context{*parts_.batches, options_.limits, prepare_context(0).created_s};
  return request.path.starts_with("/v1/files") ? serve_files(request, context)
                                               : serve_batches(request, context);
}

HttpResponse Api::door_page(const HttpRequest& request) const {
  return find_route(request.path)->door.answer(request, prepare_context(0));
}

bool Api::work_waits() const { return model_.engine->has_waiting(); }

void Api::on_done(const HttpRequest& head, int status, double seconds) {
  const Route* const route = route_of(head.path);
  http_metrics_.record(route ? route->path : std::string_view("none"), head.method, status,
                       seconds);
}

}  // namespace quire::server
