// These are the parsers of the trace formats, one per format. This header is private to
// sim/workload.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "sim/workload/trace.h"

namespace quire::sim {

Result<Workload> parse_azure(std::string_view text, std::string_view name,
                             const TraceOptions& options);
Result<Workload> parse_burstgpt(std::string_view text, std::string_view name,
                                const TraceOptions& options);
Result<Workload> parse_vidur(std::string_view text, std::string_view name,
                             const TraceOptions& options);
// Parses Mooncake and Bailian traces.
Result<Workload> parse_hashed(std::string_view text, std::string_view name, TraceFormat format,
                              const TraceOptions& options);
Result<Workload> parse_vllm(std::string_view text, std::string_view name,
                            const TraceOptions& options);
// Parses CSV with a header, or JSON lines, whose columns have usual names.
Result<Workload> parse_columns(std::string_view text, std::string_view name,
                               const TraceOptions& options);
// Returns whether parse_columns() can read a trace with this first line.
bool has_usual_columns(std::string_view line);
Result<Workload> parse_quire(std::string_view text, std::string_view name,
                             const TraceOptions& options);

// Parses an object from one line or a whole file; errors begin with `where`.
Result<boost::json::object> parse_object(std::string_view text, const std::string& where);
// Returns a number of the object, which must lie in [low, high].
Result<double> number_field(const boost::json::object& object, std::string_view key, double low,
                            double high, const std::string& where);
Result<int64_t> integer_field(const boost::json::object& object, std::string_view key, int64_t low,
                              int64_t high, const std::string& where);

// The bounds of the numbers in a trace.
inline constexpr int64_t kMaxTraceTokens = int64_t{1} << 27;
inline constexpr double kMaxTraceSeconds = 4e9;

// Returns the workload sorted and checked, with times from 0. Requests without content get a
// content of their own each.
Result<Workload> finish_trace(Workload workload, std::string_view name);

}  // namespace quire::sim
