// W3C Trace Context: which trace a request belongs to, as its headers tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::server {

struct TraceContext {
  std::string trace_id;   // 32 hex digits, lower case, not all 0
  std::string parent_id;  // 16 likewise; empty: the trace begins here
  bool is_sampled = true;
};

// Of a traceparent header; nullopt: it is not written as it should be, and counts for nothing.
std::optional<TraceContext> parse_traceparent(std::string_view header);
// Returns the header for what `span_id` calls.
std::string traceparent(const TraceContext& context, std::string_view span_id);
// Returns a trace that begins here.
TraceContext new_trace();
std::string new_span_id();

}  // namespace quire::server
