// Traces are recorded workloads. Files are untrusted: a malformed line is an error that names file
// and line.
//
//   azure     CSV TIMESTAMP, ContextTokens, GeneratedTokens (Azure LLM inference, 2023 and 2024)
//   burstgpt  CSV Timestamp [s], Session ID, Model, Request tokens, Response tokens, …; columns by
//             name. Rows without an answer (0 response tokens) are left out.
//   vidur     CSV arrived_at [s], num_prefill_tokens, num_decode_tokens; without arrived_at the
//             file has only lengths, and `lengths_at` gives the arrival times
//   mooncake  JSON lines: timestamp [ms], input_length, output_length, hash_ids (512 tokens each;
//             without them all prompts differ)
//   bailian   JSON lines: timestamp [s], input_length, output_length, hash_ids (16 tokens each),
//             chat_id, parent_chat_id
//   vllm      the result JSON of `vllm bench serve --save-detailed`: input_lens, output_lens,
//             start_times [s]
//   servegen  a folder of chunk-N-trace.csv and chunk-N-dataset.json (sim/workload/servegen.h)
//   quire     JSON lines: a header, then one request per line; lossless
//   columns   any other CSV with a header, or JSON lines, whose columns have usual names: a time
//             (seconds, a date, or a unit in the name as in arrival_ms; without a time as vidur),
//             input and output tokens, and perhaps a session. Rows with 0 tokens are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/workload/workload.h"

namespace quire::sim {

enum class TraceFormat : uint8_t {
  kAzure,
  kBurstGpt,
  kVidur,
  kMooncake,
  kBailian,
  kVllm,
  kServeGen,
  kQuire,
  kColumns
};
std::string_view to_string(TraceFormat format);
Result<TraceFormat> parse_trace_format(std::string_view name);

struct TraceOptions {
  std::optional<TraceFormat> format;        // nullopt means that the first line decides
  int64_t max_requests = int64_t{1} << 30;  // the rest of the file is not used
  // Returns the arrival time of request i of a file without times; empty means that all arrive at
  // once.
  std::function<int64_t(int64_t index)> lengths_at;
};

// Reads the text of a trace (not servegen); `name` begins messages. Times start at 0.
Result<Workload> parse_trace(std::string_view text, std::string_view name,
                             const TraceOptions& options = {});
// Reads a file, and decompresses it if its name ends in .gz.
Result<Workload> read_trace(const std::string& file, const TraceOptions& options = {});

// Writes format `quire`; parse_trace() reads it back as the same workload.
std::string write_trace(const Workload& workload);

}  // namespace quire::sim
