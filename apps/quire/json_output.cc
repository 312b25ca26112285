#include "quire/json_output.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>

#include "base/utf8.h"

namespace quire::cli {
namespace {

namespace json = boost::json;

void make_sayable(json::value& value) {
  if (double* const number = value.if_double()) {
    if (!std::isfinite(*number)) value = nullptr;
  } else if (json::string* const text = value.if_string()) {
    *text = to_valid_utf8({text->data(), text->size()});
  } else if (json::array* const array = value.if_array()) {
    for (json::value& element : *array) make_sayable(element);
  } else if (json::object* const object = value.if_object()) {
    for (json::key_value_pair& member : *object) make_sayable(member.value());
  }
}

}  // namespace

void add_json_flag(CLI::App& verb, bool& as_json) {
  verb.add_flag("--json", as_json, "Print one line of JSON instead of text");
}

void print_json(json::value figures) {
  make_sayable(figures);
  fmt::print("{}\n", json::serialize(figures));
}

}  // namespace quire::cli
