#include "server/handover/kv_transfer_params.h"

#include <limits>
#include <string>
#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kField = "kv_transfer_params";
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostFiles = size_t{1} << 20;

ApiError wrong(std::string_view member, std::string_view expected, const json::value& value) {
  return field_error(fmt::format("{}.{}", kField, member),
                     fmt::format("expected {}, got {}", expected, describe(value)));
}

ApiCheck read_bool(const json::object& object, std::string_view name, bool& out) {
  const json::value* const value = find_member(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return wrong(name, "true or false", *value);
  out = value->get_bool();
  return std::nullopt;
}

ApiCheck read_files(const json::value& value, std::vector<std::string>& out) {
  constexpr std::string_view kWhat = "a list of file names";
  if (!value.is_array() || value.get_array().size() > kMostFiles)
    return wrong("remote_files", kWhat, value);
  for (const json::value& name : value.get_array()) {
    if (!name.is_string() || name.get_string().size() > kMostNameBytes)
      return wrong("remote_files", kWhat, name);
    out.emplace_back(name.get_string());
  }
  return std::nullopt;
}

ApiCheck read_handover(const json::object& object, KvHandover& out) {
  const json::value* const file_set = find_member(object, "remote_engine_id");
  if (file_set == nullptr) return std::nullopt;
  if (!file_set->is_string() || file_set->get_string().size() > kMostNameBytes)
    return wrong("remote_engine_id", "a string", *file_set);
  out.file_set = std::string(file_set->get_string());
  if (const json::value* const files = find_member(object, "remote_files")) {
    if (ApiCheck error = read_files(*files, out.files)) return error;
  }
  if (const json::value* const count = find_member(object, "remote_num_tokens")) {
    if (!count->is_int64() || count->get_int64() < 0 ||
        count->get_int64() > std::numeric_limits<int32_t>::max())
      return wrong("remote_num_tokens", "a number of tokens", *count);
    out.num_tokens = static_cast<int32_t>(count->get_int64());
  }
  return std::nullopt;
}

}  // namespace

ApiResult<KvTransferParams> read_kv_transfer_params(const json::value& value) {
  if (!value.is_object())
    return field_error(kField, fmt::format("expected an object, got {}", describe(value)));
  const json::object& object = value.get_object();
  KvTransferParams params;
  bool takes_over = false;
  if (ApiCheck error = read_bool(object, "do_remote_decode", params.hands_over)) return *error;
  if (ApiCheck error = read_bool(object, "do_remote_prefill", takes_over)) return *error;
  if (params.hands_over && takes_over)
    return field_error(kField, "expected do_remote_decode or do_remote_prefill, got both");
  if (!takes_over) return params;
  auto handover = std::make_shared<KvHandover>();
  if (ApiCheck error = read_handover(object, *handover)) return *error;
  // Without a set of files nothing is handed over (the prompt is shorter than a block, or the
  // prefill failed), and this server computes the whole prompt.
  if (!handover->file_set.empty()) params.handover = std::move(handover);
  return params;
}

json::object kv_transfer_params_json(const KvHandover& handover, std::string_view request_id) {
  json::array files;
  for (const std::string& file : handover.files) files.emplace_back(file);
  return {{"do_remote_prefill", true},
          {"do_remote_decode", false},
          {"remote_engine_id", handover.file_set},
          {"remote_request_id", request_id},
          {"remote_block_ids", nullptr},
          {"remote_host", nullptr},
          {"remote_port", nullptr},
          {"tp_size", 1},
          {"remote_num_tokens", handover.num_tokens},
          {"remote_files", std::move(files)}};
}

}  // namespace quire::server
