#include "models/gguf/shown_value.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>

namespace quire {
namespace {

std::string list_of(size_t length, std::string_view kind) {
  return fmt::format("a list of {} {}", length, kind);
}

struct Shown {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(uint64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(std::string_view value) const {
    constexpr size_t kMaxShown = 60;
    return fmt::format("'{}{}'", value.substr(0, kMaxShown), value.size() > kMaxShown ? "…" : "");
  }
  std::string operator()(const std::vector<uint8_t>& list) const {
    return list_of(list.size(), "flags");
  }
  std::string operator()(const std::vector<int64_t>& list) const {
    return list_of(list.size(), "integers");
  }
  std::string operator()(const std::vector<uint64_t>& list) const {
    return list_of(list.size(), "integers");
  }
  std::string operator()(const std::vector<double>& list) const {
    return list_of(list.size(), "numbers");
  }
  std::string operator()(const std::vector<std::string_view>& list) const {
    return list_of(list.size(), "strings");
  }
  std::string operator()(const GgufValue::Array& list) const {
    return list_of(list.size(), "lists");
  }
};

}  // namespace

std::string shown(const GgufValue* value) {
  return value == nullptr ? "nothing" : std::visit(Shown(), value->value);
}

}  // namespace quire
