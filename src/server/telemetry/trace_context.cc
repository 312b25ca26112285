#include "server/telemetry/trace_context.h"

#include <algorithm>

#include "server/http/auth.h"

namespace quire::server {
namespace {

constexpr size_t kTraceDigits = 32, kSpanDigits = 16;
// The form is version-traceid-parentid-flags.
constexpr size_t kLength = 2 + 1 + kTraceDigits + 1 + kSpanDigits + 1 + 2;

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}
bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != text.npos;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  if (header.size() < kLength) return std::nullopt;
  const std::string_view version = header.substr(0, 2);
  // Later versions may have more after another dash. Version ff is not valid.
  const bool may_be_longer = version != "00" && header.size() > kLength && header[kLength] == '-';
  if (!is_hex(version) || version == "ff" || (header.size() != kLength && !may_be_longer))
    return std::nullopt;
  const std::string_view trace = header.substr(3, kTraceDigits);
  const std::string_view parent = header.substr(36, kSpanDigits);
  const std::string_view flags = header.substr(53, 2);
  if (header[2] != '-' || header[35] != '-' || header[52] != '-' || !is_hex(flags))
    return std::nullopt;
  if (!is_id(trace) || !is_id(parent)) return std::nullopt;
  const char low = flags[1];
  const int digit = low <= '9' ? low - '0' : low - 'a' + 10;
  return TraceContext{std::string(trace), std::string(parent), digit % 2 == 1};
}

std::string traceparent(const TraceContext& context, std::string_view span_id) {
  std::string out = "00-" + context.trace_id + "-";
  out += span_id;
  return out + (context.is_sampled ? "-01" : "-00");
}

TraceContext new_trace() { return {random_id(), {}, true}; }

std::string new_span_id() { return random_id().substr(0, kSpanDigits); }

}  // namespace quire::server
