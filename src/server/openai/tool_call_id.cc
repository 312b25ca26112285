#include "server/openai/tool_call_id.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash/fnv1a.h"

namespace quire::server {
namespace {

constexpr size_t kMistralIdBytes = 9;

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns a hash of the request, the choice and the call.
uint64_t hash_of(const ToolCallId& id, uint64_t salt) {
  const std::string text = fmt::format("{}/{}/{}", id.request_id, id.choice_index, id.call_index);
  const uint64_t hash = fnv1a(text, kFnv1aBasis ^ salt);
  return hash ^ hash >> 29;
}

std::string mistral_id(const ToolCallId& id) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bool fits = id.written.size() == kMistralIdBytes &&
                    std::all_of(id.written.begin(), id.written.end(), is_alphanumeric);
  if (fits) return std::string(id.written);
  std::string out;
  for (uint64_t rest = hash_of(id, 0); out.size() < kMistralIdBytes; rest /= kLetters.size()) {
    out += kLetters[rest % kLetters.size()];
  }
  return out;
}

}  // namespace

std::string tool_call_id(const ToolCallId& id) {
  switch (id.style) {
    case CallIds::kMistral:
      return mistral_id(id);
    case CallIds::kKimi:
      if (id.written.starts_with("functions.")) return std::string(id.written);
      return fmt::format("functions.{}:{}", id.name, id.num_earlier_calls + id.call_index);
    case CallIds::kCallHex:
      return fmt::format("call_{:016x}{:08x}", hash_of(id, 0),
                         static_cast<uint32_t>(hash_of(id, 1)));
    case CallIds::kLong:
      break;
  }
  return fmt::format("chatcmpl-tool-{}-{}-{}", id.request_id, id.choice_index, id.call_index);
}

}  // namespace quire::server
