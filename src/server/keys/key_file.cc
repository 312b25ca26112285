#include "server/keys/key_file.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <limits>
#include <set>

#include "server/http/auth.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxKeys = 1000;
constexpr size_t kMaxNameBytes = 64;
constexpr int64_t kMaxRate = 1'000'000'000;
constexpr std::string_view kMembers[] = {
    "name",           "key",     "sha256", "requests_per_minute", "tokens_per_minute",
    "max_concurrent", "priority"};

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Status read_integer(const json::object& entry, std::string_view name, int64_t least, int64_t most,
                    std::optional<int64_t>& out) {
  const json::value* const value = find_member(entry, name);
  if (value == nullptr) return {};
  if (!value->is_int64() || value->get_int64() < least || value->get_int64() > most) {
    return invalid_argument("{}: expected an integer in [{}, {}], got {}", name, least, most,
                            describe(*value));
  }
  out = value->get_int64();
  return {};
}

Status read_digest(const json::object& entry, std::string& out) {
  const std::string_view key = text_member(entry, "key"), digest = text_member(entry, "sha256");
  if (key.empty() == digest.empty())
    return invalid_argument("expected either a key or the sha256 of one");
  if (key.empty() && !is_digest(digest))
    return invalid_argument("sha256: expected 64 hex digits in lower case, got {} bytes",
                            digest.size());
  out = key.empty() ? std::string(digest) : key_digest(key);
  return {};
}

Result<KeySpec> read_entry(const json::value& value) {
  const json::object* const entry = value.if_object();
  if (entry == nullptr) return invalid_argument("expected an object, got {}", describe(value));
  for (const auto& member : *entry) {
    const std::string_view name{member.key().data(), member.key().size()};
    if (std::ranges::find(kMembers, name) == std::end(kMembers))
      return invalid_argument("{}: this member is unknown", in_quotes(name));
  }
  KeySpec spec{.name = std::string(text_member(*entry, "name")), .digest = {}};
  if (!is_name(spec.name))
    return invalid_argument("name: expected 1 to {} characters of A-Z a-z 0-9 . _ -, got {}",
                            kMaxNameBytes, in_quotes(spec.name));
  QUIRE_RETURN_IF_ERROR(read_digest(*entry, spec.digest));
  KeyLimits& limits = spec.limits;
  std::optional<int64_t> priority;
  QUIRE_RETURN_IF_ERROR(
      read_integer(*entry, "requests_per_minute", 1, kMaxRate, limits.requests_per_minute));
  QUIRE_RETURN_IF_ERROR(
      read_integer(*entry, "tokens_per_minute", 1, kMaxRate, limits.tokens_per_minute));
  QUIRE_RETURN_IF_ERROR(read_integer(*entry, "max_concurrent", 1, kMaxRate, limits.max_concurrent));
  QUIRE_RETURN_IF_ERROR(read_integer(*entry, "priority", std::numeric_limits<int32_t>::min(),
                                     std::numeric_limits<int32_t>::max(), priority));
  if (priority) spec.priority = static_cast<int32_t>(*priority);
  return spec;
}

}  // namespace

Result<std::vector<KeySpec>> parse_key_file(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const json::value root, parse_json(text, 8));
  const json::value* const list =
      root.is_object() ? find_member(root.get_object(), "keys") : nullptr;
  if (list == nullptr || !list->is_array())
    return invalid_argument(R"(expected {{"keys": [...]}}, got {})", describe(root));
  const json::array& entries = list->get_array();
  if (entries.empty() || entries.size() > kMaxKeys)
    return invalid_argument("keys: expected 1 to {} keys, got {}", kMaxKeys, entries.size());
  std::vector<KeySpec> keys;
  std::set<std::string> names, digests;
  for (size_t i = 0; i < entries.size(); ++i) {
    Result<KeySpec> spec = read_entry(entries[i]);
    if (!spec.ok()) return spec.status().with_context(fmt::format("keys.{}", i));
    if (!names.insert(spec->name).second)
      return invalid_argument("keys.{}: name: expected each once, got {} again", i,
                              in_quotes(spec->name));
    if (!digests.insert(spec->digest).second)
      return invalid_argument("keys.{}: expected each key once, got that of another again", i);
    keys.push_back(std::move(spec).value());
  }
  return keys;
}

}  // namespace quire::server
