#include "facade/flags/json_flag.h"

#include <boost/json/parse.hpp>
#include <utility>

namespace quire {

Result<boost::json::object> parse_json_flag(std::string_view flag, std::string_view text) {
  boost::system::error_code ec;
  boost::json::value value = boost::json::parse(boost::json::string_view(text), ec);
  if (ec || !value.is_object())
    return invalid_argument("{}: expected a JSON object, got {}", flag, text);
  return std::move(value.get_object());
}

}  // namespace quire
