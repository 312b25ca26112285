#include "server/json/json_body.h"

#include <boost/json/parse_options.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/serialize.hpp>

namespace quire::server {
namespace {

namespace json = boost::json;

bool is_json_content_type(std::string_view value) {
  value = value.substr(0, value.find(';'));
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  constexpr std::string_view kSuffix = "+json";
  return equals_ignoring_case(value, "application/json") ||
         (value.size() > kSuffix.size() &&
          equals_ignoring_case(value.substr(value.size() - kSuffix.size()), kSuffix));
}

}  // namespace

Result<json::value> parse_json(std::string_view text, uint32_t max_depth) {
  json::parse_options options;
  options.max_depth = max_depth;
  json::error_code ec;
  json::value value;
  size_t used = 0;
  try {
    json::parser parser({}, options);
    used = parser.write_some(text.data(), text.size(), ec);
    if (!ec && used < text.size()) ec = json::error::extra_data;
    if (!ec) value = parser.release();
  } catch (const std::exception&) {  // out of memory, or a string is too long
    return too_large("the JSON text is too large");
  }
  if (ec == json::error::too_deep) {
    return invalid_argument("expected JSON nested at most {} deep", max_depth);
  }
  if (ec == json::error::incomplete) return invalid_argument("invalid JSON: it ends too early");
  if (ec) return invalid_argument("invalid JSON after {} bytes: {}", used, ec.message());
  return value;
}

uint64_t parsed_bytes_bound(std::string_view text) {
  // A value may stand in a list that has grown to twice its size. Every object with its table,
  // every list with its block, and every name or string is an allocation of its own.
  constexpr uint64_t kValueBytes = 2 * sizeof(json::value);
  constexpr uint64_t kListBytes = 64;
  constexpr uint64_t kMemberBytes = 64 + sizeof(json::key_value_pair);
  uint64_t bytes = kValueBytes + text.size();
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (in_string) bytes += kListBytes;
    if (c == '[' || c == '{') bytes += kListBytes + kValueBytes;
    if (c == ',') bytes += kValueBytes;
    if (c == ':') bytes += kMemberBytes;
  }
  return bytes;
}

ApiResult<json::object> parse_body(const HttpRequest& request, const ServerLimits& limits) {
  const auto malformed = [](std::string message) {
    ApiError error = api_error(400, std::move(message));
    error.type = "Bad Request";
    return error;
  };
  const auto type = request.header("Content-Type");
  // A page of another origin may send a body without a content type and without a preflight.
  // Programs, which send no Origin, may leave the type out.
  const bool is_json = type ? is_json_content_type(*type) : !request.header("Origin");
  if (!is_json) {
    return malformed(fmt::format("expected Content-Type: application/json, got {}",
                                 type ? in_quotes(*type) : std::string("none")));
  }
  if (request.body.empty()) return malformed("expected a JSON object, got an empty body");
  if (parsed_bytes_bound(request.body) > limits.parsed_bytes) {
    return api_error(413, fmt::format("the body's JSON has so many values that it takes more than "
                                      "{} bytes of memory (--max-parsed-size)",
                                      limits.parsed_bytes));
  }
  Result<json::value> value = parse_json(request.body, limits.json_depth);
  if (!value.ok()) return malformed(value.status().message());
  if (!value->is_object()) {
    return malformed(fmt::format("expected a JSON object, got {}", describe(*value)));
  }
  return std::move(value).value().as_object();
}

uint64_t memory_bytes(const json::value& value) {
  constexpr uint64_t kTable = 48;  // header of a list or object, with the allocator's overhead
  uint64_t bytes = sizeof value;
  if (const json::string* const text = value.if_string()) {
    return bytes + text->capacity();
  }
  if (const json::array* const list = value.if_array()) {
    bytes += kTable;
    for (const json::value& item : *list) bytes += memory_bytes(item);
  } else if (const json::object* const object = value.if_object()) {
    constexpr uint64_t kKey = sizeof(json::key_value_pair) - sizeof(json::value) + 32;
    bytes += kTable;
    for (const auto& [key, item] : *object) bytes += kKey + key.size() + memory_bytes(item);
  }
  return bytes;
}

std::string describe(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return fmt::format("a list of {}", value.get_array().size());
    case json::kind::object:
      return "an object";
    case json::kind::double_:
      return fmt::format("the number {}", value.get_double());
    default:
      return "the number " + json::serialize(value);
  }
}

}  // namespace quire::server
