// There is one parser per trace format. This header is private to sim/workload.
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
// Reads Mooncake and Bailian.
Result<Workload> parse_hashed(std::string_view text, std::string_view name, TraceFormat format,
                              const TraceOptions& options);
Result<Workload> parse_vllm(std::string_view text, std::string_view name,
                            const TraceOptions& options);
// Reads CSV with a header, or JSON lines, whose columns have usual names.
Result<Workload> parse_columns(std::string_view text, std::string_view name,
                               const TraceOptions& options);
// Returns whether the first line of a trace says that parse_columns() can read it.
bool has_usual_columns(std::string_view line);
Result<Workload> parse_quire(std::string_view text, std::string_view name,
                             const TraceOptions& options);

// Reads an object out of one line or a whole file; the error begins with `where`.
Result<boost::json::object> parse_object(std::string_view text, const std::string& where);
// Reads a number of the object, in [low, high].
Result<double> number_field(const boost::json::object& object, std::string_view key, double low,
                            double high, const std::string& where);
Result<int64_t> integer_field(const boost::json::object& object, std::string_view key, int64_t low,
                              int64_t high, const std::string& where);

// These bound what a trace may say.
inline constexpr int64_t kMaxTraceTokens = int64_t{1} << 27;
inline constexpr double kMaxTraceSeconds = 4e9;

// Returns the workload sorted and checked, with times from 0 and a content of its own for each
// request that has none.
Result<Workload> finish_trace(Workload workload, std::string_view name);

}  // namespace quire::sim
