#include "server/json/plain_json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <iterator>
#include <utility>

namespace quire::server {
namespace {

namespace json = boost::json;

void append_double(double x, std::string& out) {
  if (!std::isfinite(x)) {  // JSON has no such numbers
    out += "null";
    return;
  }
  const size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", x);
  // A whole number is printed with a fraction, so that readers see the same type each time.
  if (out.find_first_of(".e", begin) == out.npos) out += ".0";
}

void append(const json::value& value, std::string& out) {
  if (value.is_double()) {
    append_double(value.get_double(), out);
  } else if (value.is_array()) {
    out += '[';
    const char* separator = "";
    for (const json::value& item : value.get_array()) {
      out += std::exchange(separator, ",");
      append(item, out);
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    const char* separator = "";
    for (const auto& [key, item] : value.get_object()) {
      out += std::exchange(separator, ",");
      out += json::serialize(json::string(key));
      out += ':';
      append(item, out);
    }
    out += '}';
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string plain_json(const json::value& value) {
  std::string out;
  append(value, out);
  return out;
}

}  // namespace quire::server
