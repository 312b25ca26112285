// The answers of the routes that are not generations.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>

#include "base/utf8.h"
#include "engine/adapters/adapter_registry.h"
#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/adapters/adapter_routes.h"
#include "server/api.h"
#include "server/engine_control.h"
#include "server/http/metrics_text.h"
#include "server/http/static_files.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/json/plain_json.h"
#include "server/keys/key_book.h"
#include "server/llama/llama_door.h"
#include "server/openai/chat_messages.h"
#include "server/openai/logprob_format.h"
#include "server/openai/prompt_input.h"
#include "server/openapi.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// What the routes below read of their bodies.
constexpr std::string_view kChatNames[] = {
    "messages", "add_generation_prompt", "continue_final_message",
    "tools",    "chat_template",         "chat_template_kwargs"};
constexpr std::string_view kTokenizeNames[] = {"model",
                                               "prompt",
                                               "add_special_tokens",
                                               "return_token_strs",
                                               "messages",
                                               "add_generation_prompt",
                                               "continue_final_message",
                                               "tools",
                                               "chat_template",
                                               "chat_template_kwargs"};
constexpr std::string_view kDetokenizeNames[] = {"model", "tokens"};
constexpr std::string_view kExploreNames[] = {"a", "b"};

HttpResponse json_response(const json::value& value) {
  return {200, "application/json", plain_json(value), {}};
}

double unix_now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

json::value percentile_ms(const std::optional<double>& seconds) {
  return seconds ? json::value(*seconds * 1000) : json::value();
}

json::object percentiles_ms(const Percentiles& p) {
  return {{"p50", percentile_ms(p.p50)}, {"p90", percentile_ms(p.p90)}};
}

// Of the model, or of one of its adapters.
json::object model_card(const ServedModel& model, const std::string& name, const std::string& root,
                        const json::value& parent) {
  const std::string id = fmt::format("modelperm-{}", name);
  json::object permission{{"id", id},
                          {"object", "model_permission"},
                          {"created", model.created_s},
                          {"allow_create_engine", false},
                          {"allow_sampling", true},
                          {"allow_logprobs", true},
                          {"allow_search_indices", false},
                          {"allow_view", true},
                          {"allow_fine_tuning", false},
                          {"organization", "*"},
                          {"group", nullptr},
                          {"is_blocking", false}};
  return {{"id", name},
          {"object", "model"},
          {"created", model.created_s},
          {"owned_by", "quire"},
          {"root", root},
          {"parent", parent},
          {"max_model_len", model.max_model_len},
          {"permission", json::array{std::move(permission)}}};
}

// The model under all of its names, then its adapters.
json::array model_cards(const ServedModel& model) {
  json::array cards;
  for (const std::string& name : model.names) {
    cards.emplace_back(model_card(model, name, model.root.empty() ? name : model.root, nullptr));
  }
  if (model.adapters == nullptr) return cards;
  for (const LoadedAdapterInfo& loaded : model.adapters->list()) {
    cards.emplace_back(model_card(model, loaded.source.name, loaded.source.path,
                                  json::value(model.names.front())));
  }
  return cards;
}

bool has(const json::object& body, std::string_view name) {
  const auto* const value = body.if_contains(name);
  return value != nullptr && !value->is_null();
}

// The prompt that the chat route would make of the chat fields of `body`.
ApiResult<std::string> chat_text(json::object& body, const PrepareContext& context) {
  json::object chat;
  for (const std::string_view name : kChatNames) {
    if (auto* const value = body.if_contains(name)) chat[name] = std::move(*value);
  }
  ApiResult<ParsedFields> parsed = parse_fields(std::move(chat), Endpoint::kChat, false);
  if (!parsed.ok()) return parsed.error();
  ApiResult<RenderedChat> rendered = render_chat(parsed.value().fields, context);
  if (!rendered.ok()) return rendered.error();
  return std::move(rendered.value().prompt);
}

// The text that /tokenize is about: `prompt`, or `messages` through the chat template.
ApiResult<std::string> text_to_tokenize(json::object& body, const PrepareContext& context) {
  if (const auto* const prompt = body.if_contains("prompt"); prompt && !prompt->is_null()) {
    if (!prompt->is_string()) {
      return field_error("prompt", fmt::format("expected a string, got {}", describe(*prompt)));
    }
    return std::string(prompt->get_string());
  }
  if (!has(body, "messages")) return field_error("prompt", "expected a prompt or messages");
  return chat_text(body, context);
}

// The tokens of `body[name]` as a request would bring them: a text is a prompt of
// /v1/completions, a list is the messages of /v1/chat/completions.
ApiResult<std::vector<TokenId>> ids_to_explore(json::object& body, std::string_view name,
                                               const PrepareContext& context) {
  json::value* const prompt = body.if_contains(name);
  if (prompt == nullptr || (!prompt->is_string() && !prompt->is_array())) {
    return field_error(name, fmt::format("expected a text or a list of messages, got {}",
                                         prompt ? describe(*prompt) : std::string("none")));
  }
  const bool is_chat = prompt->is_array();
  std::string text;
  if (is_chat) {
    json::object chat{{"messages", std::move(*prompt)}};
    ApiResult<std::string> rendered = chat_text(chat, context);
    if (!rendered.ok()) return rendered.error();
    text = std::move(rendered).value();
  } else {
    text = prompt->get_string();
  }
  Result<std::vector<TokenId>> ids = context.model.codec->encode(text, !is_chat);
  if (!ids.ok()) return from_status(ids.status());
  return std::move(ids).value();
}

json::array printable_tokens(const TextCodec& codec, const std::vector<TokenId>& ids) {
  json::array out;
  for (const TokenId id : ids) out.emplace_back(to_valid_utf8(codec.token_bytes(id)));
  return out;
}

ApiCheck check_requested_model(const json::object& body, const ServedModel& served) {
  if (!has(body, "model")) return std::nullopt;
  const json::value& model = body.at("model");
  if (!model.is_string()) {
    return field_error("model", fmt::format("expected a string, got {}", describe(model)));
  }
  return check_model(std::string(model.get_string()), served);
}

// The warning about fields of `body` that are none of `known`.
ApiResult<std::string> check_names(const json::object& body,
                                   std::span<const std::string_view> known, bool strict) {
  UnknownFields unknown(strict);
  for (const auto& member : body) {
    const std::string_view name{member.key().data(), member.key().size()};
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (ApiCheck error = unknown.add(name)) return *error;
  }
  return unknown.warning();
}

HttpResponse with_warning(HttpResponse response, const std::string& warning) {
  if (!warning.empty()) response.headers.emplace_back(kWarningHeader, warning);
  return response;
}

}  // namespace

HttpResponse Api::models(const HttpRequest&) const {
  return json_response(json::object{{"object", "list"}, {"data", model_cards(model_)}});
}

HttpResponse Api::model_by_id(const HttpRequest& request) const {
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  for (json::value& card : model_cards(model_)) {
    if (card.at("id").as_string() == name) return json_response(card);
  }
  return error_response(*check_model(name, model_));
}

HttpResponse Api::tokenize(const HttpRequest& request) const {
  ApiResult<json::object> body = parse_body(request, options_.limits);
  if (!body.ok()) return error_response(body.error());
  if (has(body.value(), "content")) return llama_tokenize(body.value(), model_);
  ApiResult<std::string> warning =
      check_names(body.value(), kTokenizeNames, options_.strict_fields);
  if (!warning.ok()) return error_response(warning.error());
  if (ApiCheck error = check_requested_model(body.value(), model_)) return error_response(*error);
  // The defaults of the endpoint that would get this text: a chat template adds its own BOS.
  bool add_special = has(body.value(), "prompt") || !has(body.value(), "messages");
  bool with_strings = false;
  if (ApiCheck error = read_flag(body.value(), "add_special_tokens", add_special)) {
    return error_response(*error);
  }
  if (ApiCheck error = read_flag(body.value(), "return_token_strs", with_strings)) {
    return error_response(*error);
  }
  ApiResult<std::string> text = text_to_tokenize(body.value(), prepare_context(0));
  if (!text.ok()) return error_response(text.error());
  Result<std::vector<TokenId>> ids = model_.codec->encode(text.value(), add_special);
  if (!ids.ok()) return error_response(from_status(ids.status()));

  json::array tokens, strings;
  for (const TokenId id : *ids) {
    tokens.emplace_back(id);
    if (with_strings) strings.emplace_back(model_.codec->token_piece(id));
  }
  json::object answer{
      {"count", ids->size()},
      {"max_model_len", model_.max_model_len},
      {"tokens", std::move(tokens)},
      {"token_strs", with_strings ? json::value(std::move(strings)) : json::value()}};
  return with_warning(json_response(answer), warning.value());
}

HttpResponse Api::tokenizer_info(const HttpRequest&) const {
  if (!model_.tokenizer_config.empty()) return json_response(model_.tokenizer_config);
  return error_response(api_error(404, "the model has no tokenizer_config.json"));
}

HttpResponse Api::control(const HttpRequest& request) const {
  return control_engine(request, model_, options_);
}

HttpResponse Api::adapters(const HttpRequest& request) const {
  return request.path == "/v1/load_lora_adapter" ? load_adapter(request, model_, options_)
                                                 : unload_adapter(request, model_, options_);
}

HttpResponse Api::detokenize(const HttpRequest& request) const {
  ApiResult<json::object> body = parse_body(request, options_.limits);
  if (!body.ok()) return error_response(body.error());
  if (ApiCheck error = check_requested_model(body.value(), model_)) return error_response(*error);
  ApiResult<std::string> warning =
      check_names(body.value(), kDetokenizeNames, options_.strict_fields);
  if (!warning.ok()) return error_response(warning.error());
  const auto* const tokens = body.value().if_contains("tokens");
  if (tokens == nullptr)
    return error_response(field_error("tokens", "expected a list of token ids, got none"));
  ApiResult<std::vector<TokenId>> ids = read_token_ids(*tokens, "tokens", model_.vocab_size);
  if (!ids.ok()) return error_response(ids.error());
  const std::string text = model_.codec->decode(ids.value(), true);
  // As vLLM and as llama.cpp name it.
  return with_warning(json_response(json::object{{"prompt", text}, {"content", text}}),
                      warning.value());
}

HttpResponse Api::health(const HttpRequest&) const {
  return {model_.engine->healthy() ? 200 : 503, "", "", {}};
}

HttpResponse Api::live(const HttpRequest&) const { return {200, "", "", {}}; }

HttpResponse Api::ready(const HttpRequest&) const {
  return {model_.engine->healthy() && !draining_.load() ? 200 : 503, "", "", {}};
}

HttpResponse Api::version(const HttpRequest&) const {
  return json_response(json::object{{"version", QUIRE_VERSION}});
}

HttpResponse Api::load(const HttpRequest&) const {
  return json_response(json::object{{"server_load", num_ongoing()}});
}

HttpResponse Api::metrics(const HttpRequest&) const {
  MetricsWriter threads;
  threads.family("quire:http_cpu_seconds_total", "counter",
                 "CPU time of the threads that read requests and write answers.");
  threads.sample("quire:http_cpu_seconds_total", {}, thread_times_.cpu_seconds());
  return {
      200,
      "text/plain; version=0.0.4; charset=utf-8",
      engine_metrics_text(model_.engine->stats_by_engine(), model_.names.front(), unix_now_s()) +
          adapter_metrics_text(model_) + http_metrics_.text() + threads.take() +
          (parts_.keys != nullptr ? parts_.keys->metrics_text() : std::string()),
      {}};
}

HttpResponse Api::openapi(const HttpRequest&) const {
  return {200, "application/json", openapi_, {}};
}

HttpResponse Api::docs(const HttpRequest&) const {
  return {200, "text/html; charset=utf-8", std::string(docs_page()), {}};
}

HttpResponse Api::web(const HttpRequest& request) const {
  const std::string_view name =
      request.path == "/" ? "index.html"
                          : std::string_view(request.path).substr(std::string_view("/web/").size());
  for (const StaticFile& file : static_files()) {
    if (file.name != name) continue;
    return {200,
            std::string(content_type_of(name)),
            std::string(file.data),
            {{"Cache-Control", "no-cache"},
             {"X-Content-Type-Options", "nosniff"},
             {"Content-Security-Policy",
              "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"}}};
  }
  if (request.path == "/") return docs(request);  // built without the web page
  return error_response(api_error(404, "there is no such file"));
}

HttpResponse Api::quire_stats(const HttpRequest&) const {
  const EngineStats s = model_.engine->stats();
  return json_response(json::object{{"model", model_.names.front()},
                                    {"version", QUIRE_VERSION},
                                    {"uptime_s", s.uptime_s},
                                    {"running", s.num_requests_running},
                                    {"waiting", s.num_requests_waiting},
                                    {"requests_total", s.requests_received},
                                    {"prompt_tokens_total", s.prompt_tokens},
                                    {"generation_tokens_total", s.generation_tokens},
                                    {"preemptions_total", s.num_preemptions},
                                    {"kv_blocks_total", s.num_kv_blocks},
                                    {"kv_blocks_used", s.kv_blocks_in_use},
                                    {"kv_blocks_cached", s.kv_blocks_cached},
                                    {"prefix_cache_queries_total", s.prefix_cache_queries},
                                    {"prefix_cache_hits_total", s.prefix_cache_hits},
                                    {"ttft_ms", percentiles_ms(s.recent_time_to_first_token)},
                                    {"itl_ms", percentiles_ms(s.recent_inter_token_latency)},
                                    {"step_ms", percentiles_ms(s.recent_step)}});
}

HttpResponse Api::kv_blocks(const HttpRequest&) const {
  const KvGridSnapshot grid = model_.engine->kv_grid();
  json::array owners, runs;
  for (const std::string& owner : grid.owners) owners.emplace_back(owner);
  for (size_t i = 0; i < grid.blocks.size();) {
    const KvGridCell& cell = grid.blocks[i];
    size_t end = i + 1;
    while (end < grid.blocks.size() && grid.blocks[end].state == cell.state &&
           grid.blocks[end].owner == cell.owner && grid.blocks[end].ref_cnt == cell.ref_cnt) {
      ++end;
    }
    runs.emplace_back(json::array{end - i, static_cast<int>(cell.state), cell.owner, cell.ref_cnt});
    i = end;
  }
  return json_response(json::object{{"block_size", grid.block_size},
                                    {"num_blocks", grid.blocks.size()},
                                    {"owners", std::move(owners)},
                                    {"runs", std::move(runs)}});
}

HttpResponse Api::kv_explore(const HttpRequest& request) const {
  ApiResult<json::object> body = parse_body(request, options_.limits);
  if (!body.ok()) return error_response(body.error());
  ApiResult<std::string> warning = check_names(body.value(), kExploreNames, options_.strict_fields);
  if (!warning.ok()) return error_response(warning.error());
  std::array<std::vector<TokenId>, 2> ids;
  std::array<int32_t, 2> cached{};
  constexpr std::array<std::string_view, 2> kNames = {"a", "b"};
  for (size_t i = 0; i < 2; ++i) {
    ApiResult<std::vector<TokenId>> encoded =
        ids_to_explore(body.value(), kNames[i], prepare_context(0));
    if (!encoded.ok()) return error_response(encoded.error());
    ids[i] = std::move(encoded).value();
    cached[i] = model_.engine->probe_prefix(ids[i], {}).num_cached_blocks;
  }
  const size_t shorter = std::min(ids[0].size(), ids[1].size());
  size_t shared = 0;
  while (shared < shorter && ids[0][shared] == ids[1][shared]) ++shared;
  const auto block_size = static_cast<size_t>(std::max(1, model_.engine->stats().block_size));
  return with_warning(json_response(json::object{
                          {"block_size", block_size},
                          {"a", json::object{{"tokens", printable_tokens(*model_.codec, ids[0])}}},
                          {"b", json::object{{"tokens", printable_tokens(*model_.codec, ids[1])}}},
                          {"shared_tokens", shared},
                          {"shared_blocks", shared / block_size},
                          {"cached_blocks_a", cached[0]},
                          {"cached_blocks_b", cached[1]}}),
                      warning.value());
}

std::string_view content_type_of(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".json", "application/json"},
      {".png", "image/png"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
      {".txt", "text/plain; charset=utf-8"}};
  for (const auto& [ending, type] : kTypes) {
    if (name.size() >= ending.size() && name.substr(name.size() - ending.size()) == ending)
      return type;
  }
  return "application/octet-stream";
}

}  // namespace quire::server
