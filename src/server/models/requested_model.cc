#include "server/models/requested_model.h"

#include <boost/json/basic_parser_impl.hpp>
#include <optional>
#include <string_view>

#include "server/files/multipart.h"
#include "server/json/query_values.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Names of models are shorter than this.
constexpr size_t kMaxName = 1024;
constexpr size_t kMaxDepth = 64;

// ModelListener follows the parsing of a JSON text and keeps the string under "model" (or "name")
// of the outermost object.
struct ModelListener {
  static constexpr size_t max_object_size = static_cast<size_t>(-1);
  static constexpr size_t max_array_size = static_cast<size_t>(-1);
  static constexpr size_t max_key_size = static_cast<size_t>(-1);
  static constexpr size_t max_string_size = static_cast<size_t>(-1);

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return deeper(); }
  bool on_object_end(size_t, json::error_code&) { return shallower(); }
  bool on_array_begin(json::error_code&) { return deeper(); }
  bool on_array_end(size_t, json::error_code&) { return shallower(); }
  bool on_key_part(json::string_view part, size_t, json::error_code&) { return add(part, key); }
  bool on_key(json::string_view part, size_t, json::error_code&) {
    add(part, key);
    is_model = depth == 1 && key == "model";
    is_name = depth == 1 && key == "name";
    key.clear();
    return true;
  }
  bool on_string_part(json::string_view part, size_t, json::error_code&) {
    return !is_wanted() || add(part, text);
  }
  bool on_string(json::string_view part, size_t, json::error_code& ec) {
    if (!is_wanted()) return true;
    add(part, text);
    (is_model ? model : name) = std::move(text);
    text.clear();
    if (is_model) ec = json::error::incomplete;  // the rest need not be read
    return !is_model;
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(int64_t, json::string_view, json::error_code&) { return true; }
  bool on_uint64(uint64_t, json::string_view, json::error_code&) { return true; }
  bool on_double(double, json::string_view, json::error_code&) { return true; }
  bool on_bool(bool, json::error_code&) { return true; }
  bool on_null(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

  bool is_wanted() const { return depth == 1 && (is_model || is_name); }
  bool deeper() {
    ++depth;
    return true;
  }
  bool shallower() {
    --depth;
    return true;
  }
  static bool add(json::string_view part, std::string& out) {
    if (out.size() + part.size() <= kMaxName) out.append(part.data(), part.size());
    return true;
  }

  size_t depth = 0;
  bool is_model = false, is_name = false;  // the next value belongs to this member
  std::string key, text;
  std::optional<std::string> model, name;
};

std::string of_json(std::string_view body) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::basic_parser<ModelListener> parser(options);
  json::error_code ec;
  parser.write_some(false, body.data(), body.size(), ec);
  const ModelListener& heard = parser.handler();
  return heard.model.value_or(heard.name.value_or(""));
}

}  // namespace

std::string requested_model(const HttpRequest& request) {
  if (const auto named = query_value(request.query, "model")) return std::string(*named);
  if (request.body.empty()) return {};
  const std::string_view type = request.header("Content-Type").value_or("");
  if (!type.starts_with("multipart/")) return of_json(request.body);
  const ApiResult<std::vector<FormPart>> parts = parse_form(type, request.body);
  if (!parts.ok()) return {};
  const FormPart* const part = find_part(parts.value(), "model");
  return part != nullptr && part->data.size() <= kMaxName ? std::string(part->data) : "";
}

}  // namespace quire::server
