#include "server/llama/llama_options.h"

#include <boost/json/array.hpp>
#include <limits>

#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 4096;

}  // namespace

ApiCheck read_num_predict(const std::string& where, const json::value& value,
                          RequestFields& fields) {
  if (!value.is_int64() || value.get_int64() == 0 ||
      value.get_int64() > std::numeric_limits<int32_t>::max()) {
    return wrong_value(where, "an integer other than 0", value);
  }
  if (value.get_int64() > 0) fields.max_tokens = value.get_int64();
  return std::nullopt;
}

ApiCheck read_stop(const std::string& where, json::value& value, RequestFields& fields) {
  if (value.is_string()) value = json::array{value};
  if (!value.is_array() || value.get_array().size() > kMaxStops) {
    return wrong_value(where, fmt::format("at most {} strings", kMaxStops), value);
  }
  for (const json::value& text : value.get_array()) {
    if (!text.is_string() || text.get_string().empty() ||
        text.get_string().size() > kMaxStopBytes) {
      return wrong_value(where, fmt::format("strings of 1 to {} bytes", kMaxStopBytes), text);
    }
    fields.stop.emplace_back(text.get_string());
  }
  return std::nullopt;
}

ApiCheck read_seed(const std::string& where, const json::value& value, RequestFields& fields) {
  if (!value.is_int64()) return wrong_value(where, "an integer", value);
  if (value.get_int64() >= 0) fields.seed = value.get_int64();
  return std::nullopt;
}

}  // namespace quire::server
