#include "gateway/kv_legs.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace quire::gateway {
namespace {

namespace json = boost::json;

constexpr std::string_view kParams = "kv_transfer_params";

std::optional<json::object> object_of(std::string_view text) {
  boost::system::error_code ec;
  json::value value = json::parse(text, ec);
  if (ec || !value.is_object()) return std::nullopt;
  return std::move(value).as_object();
}

// Returns whether the member is present and is neither null, false nor 0.
bool asks_for(const json::object& body, std::string_view name) {
  const json::value* const value = body.if_contains(name);
  return value != nullptr && !value->is_null() && *value != false && *value != 0;
}

bool is_zero(const json::object& body, std::string_view name) {
  const json::value* const value = body.if_contains(name);
  return value != nullptr && *value == 0;
}

bool has_one_prompt(const json::object& body) {
  const json::value* const prompt = body.if_contains("prompt");
  if (prompt == nullptr || !prompt->is_array()) return true;
  return prompt->get_array().empty() || prompt->get_array()[0].is_number();
}

bool wants_two_legs(const json::object& body) {
  if (body.contains(kParams) || !has_one_prompt(body)) return false;
  // Log-probabilities of the prompt cannot be read from the KV, so the server that answers must
  // compute the prompt.
  const json::value* const prompt_logprobs = body.if_contains("prompt_logprobs");
  if (prompt_logprobs != nullptr && !prompt_logprobs->is_null()) return false;
  if (asks_for(body, "echo")) return false;
  return !is_zero(body, "max_tokens") && !is_zero(body, "max_completion_tokens");
}

}  // namespace

std::optional<std::string> prefill_body(const server::HttpRequest& request) {
  const bool is_chat = request.path.ends_with("/v1/chat/completions");
  if (request.method != "POST" || (!is_chat && !request.path.ends_with("/v1/completions")))
    return std::nullopt;
  std::optional<json::object> body = object_of(request.body);
  if (!body || !wants_two_legs(*body)) return std::nullopt;
  for (const std::string_view name :
       {"stream_options", "min_tokens", "n", "best_of", "use_beam_search", "length_penalty",
        "early_stopping", "logprobs", "top_logprobs", "return_token_ids", "return_prompt_text"}) {
    body->erase(name);
  }
  (*body)["stream"] = false;
  (*body)["max_tokens"] = 1;
  if (is_chat) (*body)["max_completion_tokens"] = 1;
  (*body)[kParams] = {{"do_remote_decode", true},    {"do_remote_prefill", false},
                      {"remote_engine_id", nullptr}, {"remote_block_ids", nullptr},
                      {"remote_host", nullptr},      {"remote_port", nullptr}};
  return json::serialize(*body);
}

std::string decode_body(std::string_view body, std::string_view prefill_answer) {
  const std::optional<json::object> answer = object_of(prefill_answer);
  const json::value* const params = answer ? answer->if_contains(kParams) : nullptr;
  const size_t brace = body.find('{');
  if (params == nullptr || !params->is_object() || brace == body.npos) return std::string(body);
  // The handover is inserted as text, so that the client's numbers stay as they were written.
  const size_t next = body.find_first_not_of(" \t\r\n", brace + 1);
  std::string text(body.substr(0, brace + 1));
  text.append("\"").append(kParams).append("\":").append(json::serialize(*params));
  if (next != body.npos && body[next] != '}') text += ',';
  return text.append(body.substr(brace + 1));
}

}  // namespace quire::gateway
