// TraceContext is the trace that a request belongs to, as its headers say (W3C Trace Context).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::server {

struct TraceContext {
  std::string trace_id;   // 32 hex digits, lower case, not all 0
  std::string parent_id;  // 16 hex digits; empty: the trace begins here
  bool is_sampled = true;
};

// Reads a traceparent header; nullopt: the header is malformed and is ignored.
std::optional<TraceContext> parse_traceparent(std::string_view header);
// Returns the header for requests that the span `span_id` makes.
std::string traceparent(const TraceContext& context, std::string_view span_id);
// Returns a trace that begins here.
TraceContext new_trace();
std::string new_span_id();

}  // namespace quire::server
