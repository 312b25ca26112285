// These functions read traces in JSON: Mooncake, Bailian, vLLM's results.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <unordered_map>

#include "base/text_fields.h"
#include "sim/workload/token_content.h"
#include "sim/workload/trace_formats.h"

namespace quire::sim {
namespace {

namespace json = boost::json;

constexpr uint64_t kHashStream = 0x68617368u;

// Returns the text that an error shows for a value.
std::string shown(const json::value* value) {
  return value == nullptr ? "nothing" : json::serialize(*value).substr(0, 40);
}

Result<double> to_number(const json::value* value, const std::string& what, double low,
                         double high) {
  boost::system::error_code error;
  const double number =
      value != nullptr && value->is_number() ? value->to_number<double>(error) : std::nan("");
  if (!error && number >= low && number <= high) return number;
  return invalid_argument("{}: expected a number in [{}, {}], got {}", what, low, high,
                          shown(value));
}

}  // namespace

Result<json::object> parse_object(std::string_view text, const std::string& where) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) return invalid_argument("{}: not JSON: {}", where, error.message());
  if (!value.is_object()) return invalid_argument("{}: expected a JSON object", where);
  return std::move(value.get_object());
}

Result<double> number_field(const json::object& object, std::string_view key, double low,
                            double high, const std::string& where) {
  return to_number(object.if_contains(key), fmt::format("{}: {}", where, key), low, high);
}

Result<int64_t> integer_field(const json::object& object, std::string_view key, int64_t low,
                              int64_t high, const std::string& where) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code error;
  if (value != nullptr && value->is_number()) {
    const auto number = value->to_number<int64_t>(error);
    if (!error && number >= low && number <= high) return number;
  }
  return invalid_argument("{}: {}: expected an integer in [{}, {}], got {}", where, key, low, high,
                          shown(value));
}

namespace {

// Blocks with the same id hold the same tokens.
Status add_hash_blocks(const json::object& object, const std::string& where, Workload& workload,
                       SimRequest& request) {
  const json::value* ids = object.if_contains("hash_ids");
  if (ids == nullptr || !ids->is_array()) {
    return invalid_argument("{}: hash_ids: expected an array, got {}", where, shown(ids));
  }
  const json::array& array = ids->get_array();
  const int64_t most =
      (int64_t{request.input_tokens} + workload.hash_block_tokens - 1) / workload.hash_block_tokens;
  if (static_cast<int64_t>(array.size()) > most) {
    return invalid_argument(
        "{}: hash_ids: expected at most {} blocks of {} tokens for {} tokens, got {}", where, most,
        workload.hash_block_tokens, request.input_tokens, array.size());
  }
  request.first_hash_block = static_cast<int64_t>(workload.hash_blocks.size());
  request.num_hash_blocks = static_cast<int32_t>(array.size());
  for (const json::value& id : array) {
    boost::system::error_code error;
    const int64_t number = id.is_number() ? id.to_number<int64_t>(error) : -1;
    if (error || number < 0) {
      return invalid_argument("{}: hash_ids: expected integers >= 0", where);
    }
    workload.hash_blocks.push_back(stream_id(kHashStream, static_cast<uint64_t>(number)));
  }
  return {};
}

}  // namespace

Result<Workload> parse_hashed(std::string_view text, std::string_view name, TraceFormat format,
                              const TraceOptions& options) {
  const bool bailian = format == TraceFormat::kBailian;
  const double ns_per_unit = bailian ? 1e9 : 1e6;
  Workload workload;
  workload.hash_block_tokens = bailian ? 16 : 512;
  std::unordered_map<int64_t, int32_t> sessions;  // by chat id
  LineReader lines(text, name);
  while (static_cast<int64_t>(workload.requests.size()) < options.max_requests) {
    const auto line = lines.next();
    if (!line) break;
    if (trim(*line).empty()) continue;
    const std::string where = lines.where();
    QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_object(*line, where));
    SimRequest request;
    QUIRE_ASSIGN_OR_RETURN(
        const double time,
        number_field(object, "timestamp", 0, kMaxTraceSeconds * 1e9 / ns_per_unit, where));
    request.arrival_ns = std::llround(time * ns_per_unit);
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_input,
                           integer_field(object, "input_length", 1, kMaxTraceTokens, where));
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_output,
                           integer_field(object, "output_length", 0, kMaxTraceTokens, where));
    request.input_tokens = static_cast<int32_t>(num_input);
    request.output_tokens = static_cast<int32_t>(std::max<int64_t>(num_output, 1));
    if (bailian || object.contains("hash_ids")) {
      QUIRE_RETURN_IF_ERROR(add_hash_blocks(object, where, workload, request));
    }
    if (bailian) {
      constexpr int64_t kMost = int64_t{1} << 60;
      QUIRE_ASSIGN_OR_RETURN(const int64_t chat,
                             integer_field(object, "chat_id", -kMost, kMost, where));
      QUIRE_ASSIGN_OR_RETURN(const int64_t parent,
                             integer_field(object, "parent_chat_id", -kMost, kMost, where));
      const auto known = sessions.find(parent);
      request.session =
          known == sessions.end() ? static_cast<int32_t>(sessions.size()) : known->second;
      sessions[chat] = request.session;
    }
    workload.requests.push_back(request);
  }
  return finish_trace(std::move(workload), name);
}

Result<Workload> parse_vllm(std::string_view text, std::string_view name,
                            const TraceOptions& options) {
  const std::string where(name);
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_object(text, where));
  const json::array* arrays[3] = {};
  constexpr std::string_view kKeys[3] = {"input_lens", "output_lens", "start_times"};
  for (size_t i = 0; i < 3; ++i) {
    const json::value* value = object.if_contains(kKeys[i]);
    if (value == nullptr && i == 2) continue;
    if (value == nullptr || !value->is_array()) {
      return invalid_argument("{}: {}: expected an array (vllm bench serve --save-detailed)", name,
                              kKeys[i]);
    }
    arrays[i] = &value->get_array();
    if (arrays[i]->size() != arrays[0]->size()) {
      return invalid_argument("{}: {}: expected {} values, got {}", name, kKeys[i],
                              arrays[0]->size(), arrays[i]->size());
    }
  }
  Workload workload;
  for (size_t i = 0; i < arrays[0]->size(); ++i) {
    if (static_cast<int64_t>(workload.requests.size()) >= options.max_requests) break;
    const auto number = [&](size_t k, double low, double high) {
      return to_number(&(*arrays[k])[i], fmt::format("{}: {}[{}]", name, kKeys[k], i), low, high);
    };
    SimRequest request;
    QUIRE_ASSIGN_OR_RETURN(const double input, number(0, 0, kMaxTraceTokens));
    QUIRE_ASSIGN_OR_RETURN(const double output, number(1, 0, kMaxTraceTokens));
    if (arrays[2] != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(const double start, number(2, 0, kMaxTraceSeconds));
      request.arrival_ns = std::llround(start * 1e9);
    } else if (options.lengths_at) {
      request.arrival_ns = options.lengths_at(static_cast<int64_t>(workload.requests.size()));
    }
    if (input < 1 || output < 1) continue;  // the request failed
    request.input_tokens = static_cast<int32_t>(input);
    request.output_tokens = static_cast<int32_t>(output);
    workload.requests.push_back(request);
  }
  return finish_trace(std::move(workload), name);
}

}  // namespace quire::sim
