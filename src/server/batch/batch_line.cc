#include "server/batch/batch_line.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 8> kUrls = {
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/score",
    "/v1/rerank",           "/v2/embed",       "/pooling",       "/classify"};

constexpr size_t kMaxIdBytes = 512;

const json::value* find(const json::object& object, std::string_view name) {
  return object.if_contains(json::string_view(name.data(), name.size()));
}

Status expect_text(const json::object& line, std::string_view name, std::string_view what,
                   std::string& out) {
  const json::value* const value = find(line, name);
  if (value == nullptr) return invalid_argument("{}: expected {}, got nothing", name, what);
  if (!value->is_string())
    return invalid_argument("{}: expected {}, got {}", name, what, to_string(value->kind()));
  out.assign(value->get_string().data(), value->get_string().size());
  return {};
}

// `response` and `error` are JSON texts.
std::string finish(const BatchRequest& request, int64_t line_number, std::string_view response,
                   std::string_view error) {
  const std::string custom_id =
      request.custom_id.empty() ? "null" : json::serialize(json::value(request.custom_id));
  return fmt::format(R"({{"id":"batch_req_{}","custom_id":{},"response":{},"error":{}}})"
                     "\n",
                     line_number, custom_id, response, error);
}

// Returns an answer's body unchanged, because numbers that are parsed and printed again may lose
// their last digit. A body that is not one line of JSON becomes a string.
std::string json_of_body(const std::string& body) {
  json::error_code ec;
  json::parse(body, ec);
  const bool fits = !ec && body.find('\n') == body.npos;
  return fits ? body : json::serialize(json::value(body));
}

}  // namespace

Status parse_batch_request(std::string_view line, BatchRequest& out) {
  out = {};
  json::error_code ec;
  json::parse_options options;
  options.max_depth = 64;
  json::value parsed = json::parse(json::string_view(line.data(), line.size()), ec, {}, options);
  if (ec)
    return invalid_argument("expected a JSON object, got text that is not JSON: {}", ec.message());
  if (!parsed.is_object())
    return invalid_argument("expected a JSON object, got {}", to_string(parsed.kind()));
  const json::object& object = parsed.get_object();
  QUIRE_RETURN_IF_ERROR(expect_text(object, "custom_id", "a name for the answer", out.custom_id));
  if (out.custom_id.empty() || out.custom_id.size() > kMaxIdBytes) {
    const size_t size = out.custom_id.size();
    out.custom_id.clear();
    return invalid_argument("custom_id: expected 1 to {} bytes, got {}", kMaxIdBytes, size);
  }
  std::string method = "POST";
  if (find(object, "method") != nullptr)
    QUIRE_RETURN_IF_ERROR(expect_text(object, "method", "POST", method));
  if (method != "POST") return invalid_argument("method: expected POST, got {}", method);
  QUIRE_RETURN_IF_ERROR(expect_text(object, "url", "a path such as /v1/chat/completions", out.url));
  if (!is_batch_url(out.url))
    return invalid_argument("url: expected one of {}, got {}", batch_urls(), out.url);
  const json::value* const body = find(object, "body");
  if (body == nullptr || !body->is_object()) {
    return invalid_argument("body: expected an object, got {}",
                            body == nullptr ? "nothing" : to_string(body->kind()));
  }
  const json::value* const stream = find(body->get_object(), "stream");
  if (stream != nullptr && stream->is_bool() && stream->get_bool())
    return invalid_argument("stream: expected false in a batch, got true");
  out.body = json::serialize(*body);
  return {};
}

std::string batch_answer(const BatchRequest& request, int64_t line_number,
                         const HttpResponse& response) {
  const std::string answer =
      fmt::format(R"({{"status_code":{},"request_id":"batch_req_{}","body":{}}})", response.status,
                  line_number, json_of_body(response.body));
  return finish(request, line_number, answer, "null");
}

std::string batch_error(const BatchRequest& request, int64_t line_number,
                        std::string_view message) {
  json::object error;
  error["code"] = "invalid_request";
  error["message"] = fmt::format("line {}: {}", line_number, message);
  return finish(request, line_number, "null", json::serialize(error));
}

namespace {

struct AnswerHead {
  std::string custom_id;
  int64_t status = 0;
};

// The id is empty when the line is no answer to a request with an id.
AnswerHead answer_head(std::string_view line) {
  json::error_code ec;
  const json::value parsed = json::parse(json::string_view(line.data(), line.size()), ec);
  if (ec || !parsed.is_object()) return {};
  const json::value* const id = find(parsed.get_object(), "custom_id");
  const json::value* const response = find(parsed.get_object(), "response");
  if (id == nullptr || !id->is_string() || response == nullptr || !response->is_object()) return {};
  const json::value* const status = find(response->get_object(), "status_code");
  if (status == nullptr || !status->is_int64()) return {};
  return {std::string(id->get_string().data(), id->get_string().size()), status->get_int64()};
}

}  // namespace

std::string answered_id(std::string_view line) {
  AnswerHead head = answer_head(line);
  return head.status == 200 ? std::move(head.custom_id) : std::string();
}

std::string refused_id(std::string_view line) {
  AnswerHead head = answer_head(line);
  return head.status != 200 ? std::move(head.custom_id) : std::string();
}

bool is_batch_url(std::string_view url) {
  return std::find(kUrls.begin(), kUrls.end(), url) != kUrls.end();
}

std::string batch_urls() { return fmt::format("{}", fmt::join(kUrls, ", ")); }

}  // namespace quire::server
