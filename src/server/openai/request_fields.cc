#include "server/openai/request_fields.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxNamedFields = 8;  // in one warning
constexpr size_t kMaxNameBytes = 64;

std::string bounds_text(const Field& field, std::string_view kind) {
  const auto low = field.exclusive_min ? ">" : ">=";
  if (field.min && field.max) {
    return fmt::format("{} in {}{}, {}]", kind, field.exclusive_min ? "(" : "[", *field.min,
                       *field.max);
  }
  if (field.min) return fmt::format("{} {} {}", kind, low, *field.min);
  if (field.max) return fmt::format("{} <= {}", kind, *field.max);
  return std::string(kind);
}

bool in_bounds(const Field& field, double x) {
  if (field.min && (field.exclusive_min ? x <= *field.min : x < *field.min)) return false;
  return !field.max || x <= *field.max;
}

// Returns an integer, which may be written as 3.0. nullopt: it is something else, or outside int64.
std::optional<int64_t> integer_of(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    const double x = value.get_double();
    if (std::nearbyint(x) == x && std::fabs(x) <= 9007199254740992.0)
      return static_cast<int64_t>(x);
  }
  return std::nullopt;
}

std::optional<double> number_of(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double() && std::isfinite(value.get_double())) return value.get_double();
  return std::nullopt;
}

bool asks_for_nothing(const json::value& value) {
  return value.is_null() || (value.is_bool() && !value.get_bool()) ||
         (value.is_object() && value.get_object().empty()) ||
         (value.is_array() && value.get_array().empty()) ||
         (value.is_string() && value.get_string().empty());
}

struct Apply {
  const Field& field;
  RequestFields& out;
  json::value& value;

  ApiError wrong(std::string_view kind) const {
    return field_error(
        field.name, fmt::format("expected {}, got {}", bounds_text(field, kind), describe(value)));
  }
  ApiCheck operator()(std::monostate) const {
    if (field.support != FieldSupport::kUnsupported || asks_for_nothing(value)) return std::nullopt;
    return unsupported_field(field.name, "this feature is not available on this server");
  }
  ApiCheck operator()(BoolMember member) const {
    if (!value.is_bool()) return wrong("true or false");
    out.*member = value.get_bool();
    return std::nullopt;
  }
  ApiCheck operator()(IntMember member) const {
    const auto x = integer_of(value);
    if (!x || !in_bounds(field, static_cast<double>(*x))) return wrong("an integer");
    out.*member = *x;
    return std::nullopt;
  }
  ApiCheck operator()(NumberMember member) const {
    const auto x = number_of(value);
    if (!x || !in_bounds(field, *x)) return wrong("a number");
    out.*member = *x;
    return std::nullopt;
  }
  ApiCheck operator()(StringMember member) const {
    if (!value.is_string()) return wrong("a string");
    out.*member = std::string(value.get_string());
    return std::nullopt;
  }
  ApiCheck operator()(FieldSetter setter) const { return setter(out, value); }
};

bool applies(const Field& field, Endpoint endpoint) {
  return (field.endpoints & static_cast<uint8_t>(endpoint)) != 0;
}

const Field* find_field(std::span<const Field> table, std::string_view name, Endpoint endpoint) {
  for (const Field& field : table) {
    if (field.name == name && applies(field, endpoint)) return &field;
  }
  return nullptr;
}

std::string printable(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, kMaxNameBytes)) text.push_back(c > 0x20 && c < 0x7f ? c : '?');
  return text;
}

const RemovedField* find_removed(std::string_view name) {
  for (const RemovedField& removed : removed_fields()) {
    if (removed.name == name) return &removed;
  }
  return nullptr;
}

// Returns a text such as "guided_json was removed, use structured_outputs.json" or "unknown field
// foo".
std::string warning_about(std::string_view name) {
  const RemovedField* const removed = find_removed(name);
  if (removed == nullptr) return fmt::format("unknown field {} has no effect", printable(name));
  return removed->replacement.empty()
             ? fmt::format("{} was removed and has no effect", name)
             : fmt::format("{} was removed and has no effect, use {}", name, removed->replacement);
}

ApiError refuse_unknown(std::string_view name) {
  const RemovedField* const removed = find_removed(name);
  if (removed == nullptr) return field_error(printable(name), "this field is unknown");
  return field_error(name,
                     removed->replacement.empty()
                         ? "this field was removed"
                         : fmt::format("this field was removed, use {}", removed->replacement));
}

ApiCheck check_streaming(const RequestFields& f) {
  const bool stream = f.stream.value_or(false);
  if (f.has_stream_options && !stream) {
    return field_error("stream_options", "expected only together with \"stream\": true");
  }
  if (f.prompt_logprobs && stream) {
    return field_error("prompt_logprobs", "expected no \"stream\": true beside it");
  }
  return std::nullopt;
}

ApiCheck check_best_of(const RequestFields& f) {
  if (!f.best_of) return std::nullopt;
  const int64_t n = f.n.value_or(1);
  if (*f.best_of < n)
    return field_error("best_of", fmt::format("expected at least n ({}), got {}", n, *f.best_of));
  if (*f.best_of == n) return std::nullopt;
  if (f.stream.value_or(false)) {
    return field_error(
        "best_of",
        "expected n with \"stream\": true, since which choices are the best is known "
        "at their ends");
  }
  if (f.use_beam_search.value_or(false))
    return field_error("best_of", "expected n with \"use_beam_search\": true");
  if (!f.logprob_token_ids.empty() || f.max_tokens == 0)
    return field_error("best_of", "expected n with logprob_token_ids or max_tokens 0");
  return std::nullopt;
}

ApiCheck check_beam_search(const RequestFields& f) {
  if (f.use_beam_search.value_or(false)) {
    if (f.stream.value_or(false)) {
      return field_error("stream",
                         "expected false with \"use_beam_search\": true, since nothing is known of "
                         "the texts before the search is over");
    }
  } else if (f.early_stopping) {
    return field_error("early_stopping", "expected \"use_beam_search\": true beside it");
  }
  return std::nullopt;
}

ApiCheck check_structured(const RequestFields& f) {
  if (f.response_format && f.structured_outputs) {
    return field_error("structured_outputs", "expected no response_format beside it");
  }
  return std::nullopt;
}

std::string_view tool_name(const json::value& tool) {
  return tool.at("function").at("name").get_string();
}

// Every tool has a name, because the field's setter has checked that.
ApiCheck check_tools(const RequestFields& f) {
  const bool wants = f.tool_choice != ToolChoice::kDefault && f.tool_choice != ToolChoice::kNone;
  if (wants && f.tools.empty()) return field_error("tool_choice", "expected \"tools\" beside it");
  std::set<std::string_view> names;
  for (const json::value& tool : f.tools) {
    if (names.insert(tool_name(tool)).second) continue;
    return field_error("tools", fmt::format("expected each function's name once, got {} twice",
                                            in_quotes(tool_name(tool))));
  }
  if (f.tool_choice == ToolChoice::kNamed && !names.contains(f.tool_choice_name)) {
    return field_error("tool_choice", fmt::format("expected the name of one of the tools, got {}",
                                                  in_quotes(f.tool_choice_name)));
  }
  return std::nullopt;
}

ApiCheck check_chat(const RequestFields& f) {
  if (f.top_logprobs.value_or(0) != 0 && !f.logprobs_wanted.value_or(false)) {
    return field_error("top_logprobs", "expected \"logprobs\": true beside it");
  }
  if (f.add_generation_prompt.value_or(false) && f.continue_final_message.value_or(false)) {
    return field_error("continue_final_message",
                       "expected not both add_generation_prompt and continue_final_message");
  }
  if (ApiCheck error = check_tools(f)) return error;
  if (f.messages.empty()) return field_error("messages", "expected at least one message");
  return std::nullopt;
}

ApiCheck check_completions(const RequestFields& f) {
  if (f.prompt.is_null()) return field_error("prompt", "expected a prompt, got none");
  if (f.max_tokens == 0 && !f.echo.value_or(false)) {
    return field_error("max_tokens",
                       "expected an integer >= 1 (0 only with \"echo\": true), got 0");
  }
  return std::nullopt;
}

}  // namespace

void add_warning(std::string_view text, std::string& warning) {
  if (!warning.empty()) warning += "; ";
  warning += text;
}

ApiCheck UnknownFields::add(std::string_view name) {
  if (strict_) return refuse_unknown(name);
  if (++num_unknown_ <= kMaxNamedFields) {
    if (!named_.empty()) named_ += "; ";
    named_ += warning_about(name);
  }
  return std::nullopt;
}

std::string UnknownFields::warning() const {
  if (num_unknown_ <= kMaxNamedFields) return named_;
  return fmt::format("{}; and {} more", named_, num_unknown_ - kMaxNamedFields);
}

ApiCheck apply_field(const Field& field, RequestFields& fields, json::value& value) {
  return std::visit(Apply{field, fields, value}, field.target);
}

const Field& field_of(std::string_view name, Endpoint endpoint) {
  const Field* const field = find_field(field_table(), name, endpoint);
  QUIRE_CHECK(field != nullptr, "no field {}", name);
  return *field;
}

std::vector<Field> with_chat_fields(std::span<const Field> own,
                                    std::span<const std::string_view> chat_names) {
  std::vector<Field> table(own.begin(), own.end());
  for (const std::string_view name : chat_names) table.push_back(field_of(name, Endpoint::kChat));
  return table;
}

ApiResult<ParsedFields> read_fields(json::object body, Endpoint endpoint, bool strict,
                                    std::span<const Field> table) {
  ParsedFields parsed;
  UnknownFields unknown(strict);
  for (auto& member : body) {
    const std::string_view name{member.key().data(), member.key().size()};
    const Field* field = find_field(table, name, endpoint);
    if (field == nullptr) {
      if (ApiCheck error = unknown.add(name)) return *error;
      continue;
    }
    if (member.value().is_null()) continue;
    if (ApiCheck error = apply_field(*field, parsed.fields, member.value())) return *error;
  }
  parsed.warning = unknown.warning();
  return parsed;
}

ApiCheck check_fields(const RequestFields& f, Endpoint endpoint) {
  if (ApiCheck error = check_streaming(f)) return error;
  if (ApiCheck error = check_beam_search(f)) return error;
  if (ApiCheck error = check_best_of(f)) return error;
  if (ApiCheck error = check_structured(f)) return error;
  return endpoint == Endpoint::kChat ? check_chat(f) : check_completions(f);
}

ApiResult<ParsedFields> parse_fields(json::object body, Endpoint endpoint, bool strict,
                                     std::span<const Field> table) {
  ApiResult<ParsedFields> parsed = read_fields(std::move(body), endpoint, strict, table);
  if (!parsed.ok()) return parsed;
  if (ApiCheck error = check_fields(parsed.value().fields, endpoint)) return *error;
  return parsed;
}

}  // namespace quire::server
