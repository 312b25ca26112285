#include "gateway/endpoints_file.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <fstream>
#include <iterator>
#include <optional>

namespace quire::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kMostBytes = 1 << 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Returns the line without what follows a #.
std::string_view without_comment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t'))
      return line.substr(0, i);
  }
  return line;
}

std::string_view unquoted(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                         text.back() == text.front();
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

Result<BackendAddress> address_of(std::string_view address, std::string_view port) {
  const bool is_bare_v6 = address.find(':') != address.npos;
  return parse_backend(is_bare_v6 ? fmt::format("[{}]:{}", address, port)
                                  : fmt::format("{}:{}", address, port));
}

Result<std::vector<BackendAddress>> parse_json(std::string_view text) {
  boost::system::error_code ec;
  const json::value whole = json::parse(json::string_view(text), ec);
  if (ec) return invalid_argument("endpoints: not JSON: {}", ec.message());
  const json::value* const list =
      whole.is_object() ? whole.as_object().if_contains("endpoints") : nullptr;
  if (list == nullptr || !list->is_array())
    return invalid_argument("endpoints: expected a list with that name");
  std::vector<BackendAddress> found;
  for (const json::value& entry : list->as_array()) {
    const json::object* const object = entry.if_object();
    const json::value* const address = object ? object->if_contains("address") : nullptr;
    const json::value* const port = object ? object->if_contains("port") : nullptr;
    if (address == nullptr || !address->is_string() || port == nullptr ||
        !(port->is_string() || port->is_int64())) {
      return invalid_argument("endpoints[{}]: expected an address and a port", found.size());
    }
    const std::string number =
        port->is_string() ? std::string(port->get_string()) : std::to_string(port->get_int64());
    QUIRE_ASSIGN_OR_RETURN(found.emplace_back(), address_of(address->get_string(), number));
  }
  return found;
}

// EndpointLines reads llm-d's file, a list of mappings. Only scalars on the level of the items are
// read.
class EndpointLines {
 public:
  Status take(std::string_view line, int number) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    std::string_view rest = trimmed(line);
    if (rest.empty() || rest == "---") return {};
    if (!has_begun_) {
      if (rest != "endpoints:")
        return invalid_argument("line {}: expected endpoints:, got {}", number, cut(rest));
      has_begun_ = true;
      return {};
    }
    if (rest.starts_with("- ") || rest == "-") {
      if (item_indent_ && indent > *item_indent_) return {};  // a list inside an item
      QUIRE_RETURN_IF_ERROR(end_item(number));
      item_indent_ = indent;
      is_open_ = true;
      rest = trimmed(rest.substr(1));
      key_indent_ = indent + 2;
      if (rest.empty()) return {};
    } else if (!is_open_) {
      return invalid_argument("line {}: expected an item (- name: …), got {}", number, cut(rest));
    } else if (indent > key_indent_) {
      return {};  // inside a member such as labels
    }
    return take_member(rest, number);
  }
  Status end_item(int number) {
    if (!is_open_) return {};
    is_open_ = false;
    if (address_.empty() || port_.empty())
      return invalid_argument("line {}: expected an address and a port of the item above", number);
    QUIRE_ASSIGN_OR_RETURN(found.emplace_back(), address_of(address_, port_));
    address_.clear();
    port_.clear();
    return {};
  }

  std::vector<BackendAddress> found;

 private:
  static std::string_view cut(std::string_view text) { return text.substr(0, 80); }
  Status take_member(std::string_view text, int number) {
    const size_t colon = text.find(':');
    if (colon == text.npos)
      return invalid_argument("line {}: expected name: value, got {}", number, cut(text));
    const std::string_view name = unquoted(trimmed(text.substr(0, colon)));
    const std::string_view value = unquoted(trimmed(text.substr(colon + 1)));
    if (name == "address") address_ = value;
    if (name == "port") port_ = value;
    return {};
  }

  bool has_begun_ = false;
  bool is_open_ = false;  // an item has begun
  std::optional<size_t> item_indent_;
  size_t key_indent_ = 0;
  std::string address_, port_;
};

}  // namespace

Result<std::vector<BackendAddress>> parse_endpoints(std::string_view text) {
  std::vector<BackendAddress> found;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') {
    QUIRE_ASSIGN_OR_RETURN(found, parse_json(text));
  } else {
    EndpointLines lines;
    std::optional<bool> is_plain;  // one address per line
    int number = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = without_comment(text.substr(begin, end - begin));
      begin = end + 1;
      ++number;
      if (trimmed(line).empty()) continue;
      if (!is_plain) is_plain = !trimmed(line).starts_with("endpoints:") && trimmed(line) != "---";
      if (!*is_plain) {
        QUIRE_RETURN_IF_ERROR(lines.take(line, number));
        continue;
      }
      Result<BackendAddress> address = parse_backend(trimmed(line));
      if (!address.ok()) return address.status().with_context(fmt::format("line {}", number));
      found.push_back(std::move(*address));
    }
    QUIRE_RETURN_IF_ERROR(lines.end_item(number + 1));
    if (is_plain && !*is_plain) found = std::move(lines.found);
  }
  if (found.empty()) return invalid_argument("expected at least one backend, got none");
  return found;
}

Result<std::vector<BackendAddress>> read_endpoints_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("{}: no file that can be read", path);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes)
    return invalid_argument("{}: expected at most {} bytes", path, kMostBytes);
  Result<std::vector<BackendAddress>> found = parse_endpoints(text);
  if (!found.ok()) return found.status().with_context(path);
  return found;
}

}  // namespace quire::gateway
