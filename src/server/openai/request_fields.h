// This table lists every field that a generation request may have. It drives parsing, checking,
// /openapi.json and the answer to unknown fields.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "core/beam_search_params.h"
#include "core/structured_outputs.h"
#include "server/handover/kv_transfer_params.h"
#include "server/http/api_error.h"

namespace quire::server {

enum class Endpoint : uint8_t { kCompletions = 1, kChat = 2 };

enum class ToolChoice : uint8_t { kDefault, kNone, kAuto, kRequired, kNamed };

// The fields as the client wrote them, checked one by one. Absent and null are the same, and
// defaults are not applied yet.
struct RequestFields {
  std::optional<std::string> model;
  boost::json::value prompt;  // null: absent
  boost::json::array messages;

  std::optional<int64_t> max_tokens, max_completion_tokens, min_tokens, n, seed, top_k, priority;
  std::optional<double> temperature, top_p, min_p;
  std::optional<double> presence_penalty, frequency_penalty, repetition_penalty;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::string> bad_words;
  std::optional<std::vector<TokenId>> allowed_token_ids;
  std::optional<bool> ignore_eos, include_stop_str_in_output;
  std::optional<bool> skip_special_tokens, spaces_between_special_tokens;

  std::optional<int64_t> best_of;  // completions only
  std::optional<bool> use_beam_search;
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;

  std::optional<int64_t> logprobs_count;  // completions' logprobs
  std::optional<bool> logprobs_wanted;    // chat's logprobs
  std::optional<int64_t> top_logprobs, prompt_logprobs;
  std::vector<TokenId> logprob_token_ids;

  std::optional<bool> stream, include_usage, continuous_usage_stats;
  bool has_stream_options = false;
  std::optional<int64_t> stream_interval;
  std::optional<bool> echo;

  // At most one of these two is set.
  std::optional<StructuredOutputs> response_format, structured_outputs;

  boost::json::array tools;
  ToolChoice tool_choice = ToolChoice::kDefault;
  std::string tool_choice_name;  // the function, with kNamed
  std::optional<bool> add_generation_prompt, continue_final_message, add_special_tokens;
  std::optional<bool> include_reasoning, parallel_tool_calls;
  std::optional<int64_t> thinking_token_budget;
  std::optional<std::string> reasoning_effort, chat_template, truncation_side, cache_salt,
      request_id;
  std::optional<int64_t> truncate_prompt_tokens;
  std::optional<std::string> prediction;  // the text that the answer is expected to repeat
  std::optional<int64_t> num_speculative_tokens;
  KvTransferParams kv_transfer;
  boost::json::object chat_template_kwargs;
  boost::json::array documents;
  std::optional<bool> return_token_ids, return_tokens_as_token_ids, return_prompt_text,
      return_timings;
};

enum class FieldSupport : uint8_t {
  kSupported,
  kNoEffect,     // accepted for compatibility, changes nothing
  kUnsupported,  // refused unless its value asks for the usual behaviour
};

using BoolMember = std::optional<bool> RequestFields::*;
using IntMember = std::optional<int64_t> RequestFields::*;
using NumberMember = std::optional<double> RequestFields::*;
using StringMember = std::optional<std::string> RequestFields::*;
// Reads the value itself and may move it away. It adds to what other setters wrote, so that the
// order of fields does not matter.
using FieldSetter = ApiCheck (*)(RequestFields&, boost::json::value&);

struct Field {
  static constexpr uint8_t kChatOnly = static_cast<uint8_t>(Endpoint::kChat);

  std::string_view name;
  uint8_t endpoints;  // Endpoint bits
  // Where the value is stored. monostate: nowhere; with kUnsupported, a value that asks for
  // something is refused.
  std::variant<std::monostate, BoolMember, IntMember, NumberMember, StringMember, FieldSetter>
      target;
  std::string_view schema;  // JSON Schema text of the type; empty: follows from target and bounds
  std::string_view default_json;  // printed in the API description
  std::string_view help;
  std::optional<double> min = std::nullopt;
  std::optional<double> max = std::nullopt;
  bool exclusive_min = false;
  FieldSupport support = FieldSupport::kSupported;
};

// Returns the fields of OpenAI's routes.
std::span<const Field> field_table();
// Returns one of these fields by its name.
const Field& field_of(std::string_view name, Endpoint endpoint);
// Returns the fields of another API: its own, and those fields of chats that it accepts too, by
// name.
std::vector<Field> with_chat_fields(std::span<const Field> own,
                                    std::span<const std::string_view> chat_names);
// A field that old clients send and that has lost its meaning, with what to use instead.
struct RemovedField {
  std::string_view name;
  std::string_view replacement;
};
std::span<const RemovedField> removed_fields();

// Appends a sentence to the warning of a call.
void add_warning(std::string_view text, std::string& warning);

// This header carries the warning.
inline constexpr std::string_view kWarningHeader = "X-Quire-Warning";

// UnknownFields collects the unknown fields of a body. They give one warning, or with `strict` the
// first one gives a 400.
class UnknownFields {
 public:
  explicit UnknownFields(bool strict) : strict_(strict) {}
  ApiCheck add(std::string_view name);
  // Returns a warning in printable ASCII that names only the first few unknown fields, or an empty
  // string when nothing was unknown.
  std::string warning() const;

 private:
  bool strict_;
  std::string named_;
  size_t num_unknown_ = 0;
};

struct ParsedFields {
  RequestFields fields;
  // The warning about unknown and removed fields, in printable ASCII; empty when there is none.
  std::string warning;
};

// Reads `body` by the rows of `table` that apply to the endpoint. With `strict`, an unknown field
// gives a 400.
ApiResult<ParsedFields> read_fields(boost::json::object body, Endpoint endpoint, bool strict,
                                    std::span<const Field> table);
// Reads one value by one row of the table.
ApiCheck apply_field(const Field& field, RequestFields& fields, boost::json::value& value);
// Checks what involves several fields.
ApiCheck check_fields(const RequestFields& fields, Endpoint endpoint);
// Does both: reads the fields and checks them.
ApiResult<ParsedFields> parse_fields(boost::json::object body, Endpoint endpoint, bool strict,
                                     std::span<const Field> table = field_table());

}  // namespace quire::server
