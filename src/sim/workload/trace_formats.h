// One parser per trace format. Internal to sim/trace.
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
// Mooncake and Bailian.
Result<Workload> parse_hashed(std::string_view text, std::string_view name, TraceFormat format,
                              const TraceOptions& options);
Result<Workload> parse_vllm(std::string_view text, std::string_view name,
                            const TraceOptions& options);
Result<Workload> parse_quire(std::string_view text, std::string_view name,
                             const TraceOptions& options);

// An object out of one line or a whole file; the error begins with `where`.
Result<boost::json::object> parse_object(std::string_view text, const std::string& where);
// A number of the object, in [low, high].
Result<double> number_field(const boost::json::object& object, std::string_view key, double low,
                            double high, const std::string& where);
Result<int64_t> integer_field(const boost::json::object& object, std::string_view key, int64_t low,
                              int64_t high, const std::string& where);

// Bounds of what a trace may say.
inline constexpr int64_t kMaxTraceTokens = int64_t{1} << 27;
inline constexpr double kMaxTraceSeconds = 4e9;

// Sorted, times from 0, each request with a content of its own where it has none; checked.
Result<Workload> finish_trace(Workload workload, std::string_view name);

}  // namespace quire::sim
