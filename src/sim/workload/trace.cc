#include "sim/workload/trace.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text_fields.h"
#include "sim/workload/token_content.h"
#include "sim/workload/trace_formats.h"

namespace quire::sim {
namespace {

constexpr std::string_view kNames[] = {"azure", "burstgpt", "vidur", "mooncake", "bailian",
                                       "vllm",  "servegen", "quire", "columns"};
constexpr size_t kMaxTraceBytes = size_t{4} << 30;
constexpr uint64_t kTraceStream = 0x7472616365u;

// Guesses the format by the first line.
Result<TraceFormat> guess_format(std::string_view text, std::string_view name) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const auto has = [line](std::string_view word) { return line.find(word) != line.npos; };
  if (has("\"quire-trace\"")) return TraceFormat::kQuire;
  if (has("ContextTokens")) return TraceFormat::kAzure;
  if (has("Request tokens")) return TraceFormat::kBurstGpt;
  if (has("num_prefill_tokens")) return TraceFormat::kVidur;
  if (has("\"chat_id\"")) return TraceFormat::kBailian;
  if (has("\"hash_ids\"") || (has("\"timestamp\"") && has("\"input_length\""))) {
    return TraceFormat::kMooncake;
  }
  if (text.substr(0, 1 << 16).find("\"input_lens\"") != text.npos ||
      (!line.empty() && line[0] == '{' && text.find("\"input_lens\"") != text.npos)) {
    return TraceFormat::kVllm;
  }
  if (has_usual_columns(line)) return TraceFormat::kColumns;
  if (trim(text).empty()) {
    return invalid_argument("{}:1: expected a trace of a known format, got an empty file", name);
  }
  std::string shown(line.substr(0, 60));
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return invalid_argument(
      "{}:1: expected a trace of a known format (azure, burstgpt, vidur, mooncake, bailian, vllm, "
      "quire), or CSV with a header or JSON lines with input_tokens and output_tokens, got '{}'",
      name, shown);
}

}  // namespace

std::string_view to_string(TraceFormat format) { return kNames[static_cast<size_t>(format)]; }

Result<TraceFormat> parse_trace_format(std::string_view name) {
  const auto it = std::find(std::begin(kNames), std::end(kNames), name);
  if (it != std::end(kNames)) return static_cast<TraceFormat>(it - std::begin(kNames));
  return invalid_argument(
      "trace format: expected azure, burstgpt, vidur, mooncake, bailian, vllm, servegen, quire or "
      "columns, got '{}'",
      name);
}

Result<Workload> parse_trace(std::string_view text, std::string_view name,
                             const TraceOptions& options) {
  TraceFormat format{};
  if (options.format) {
    format = *options.format;
  } else {
    QUIRE_ASSIGN_OR_RETURN(format, guess_format(text, name));
  }
  switch (format) {
    case TraceFormat::kAzure:
      return parse_azure(text, name, options);
    case TraceFormat::kBurstGpt:
      return parse_burstgpt(text, name, options);
    case TraceFormat::kVidur:
      return parse_vidur(text, name, options);
    case TraceFormat::kMooncake:
    case TraceFormat::kBailian:
      return parse_hashed(text, name, format, options);
    case TraceFormat::kVllm:
      return parse_vllm(text, name, options);
    case TraceFormat::kQuire:
      return parse_quire(text, name, options);
    case TraceFormat::kColumns:
      return parse_columns(text, name, options);
    case TraceFormat::kServeGen:
      break;
  }
  return invalid_argument("{}: a servegen trace is a folder, not a file", name);
}

Result<Workload> read_trace(const std::string& file, const TraceOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_text(file, kMaxTraceBytes));
  return parse_trace(text, file, options);
}

Result<Workload> finish_trace(Workload workload, std::string_view name) {
  if (workload.requests.empty()) return invalid_argument("{}: holds no requests", name);
  int64_t first_ns = workload.requests[0].arrival_ns;
  for (const SimRequest& r : workload.requests) first_ns = std::min(first_ns, r.arrival_ns);
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    SimRequest& r = workload.requests[i];
    r.arrival_ns -= first_ns;
    if (r.content == 0) r.content = stream_id(kTraceStream, i);
  }
  workload.name = std::string(name);
  sort_by_arrival(workload);
  QUIRE_RETURN_IF_ERROR(workload.validate().with_context(name));
  return workload;
}

}  // namespace quire::sim
