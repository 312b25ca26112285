// These functions read traces in CSV: Azure, BurstGPT, Vidur. Columns are found by their names.
#include <unordered_map>

#include "sim/workload/csv_reader.h"
#include "sim/workload/trace_formats.h"

namespace quire::sim {
namespace {

bool full(const Workload& workload, const TraceOptions& options) {
  return static_cast<int64_t>(workload.requests.size()) >= options.max_requests;
}

}  // namespace

Result<Workload> parse_azure(std::string_view text, std::string_view name,
                             const TraceOptions& options) {
  CsvReader csv(text, name);
  QUIRE_ASSIGN_OR_RETURN(const size_t time, csv.column("TIMESTAMP"));
  QUIRE_ASSIGN_OR_RETURN(const size_t input, csv.column("ContextTokens"));
  QUIRE_ASSIGN_OR_RETURN(const size_t output, csv.column("GeneratedTokens"));
  Workload workload;
  while (!full(workload, options)) {
    QUIRE_ASSIGN_OR_RETURN(const bool more, csv.next());
    if (!more) break;
    SimRequest request;
    QUIRE_ASSIGN_OR_RETURN(request.arrival_ns,
                           parse_date_time_ns(csv.field(time), csv.where(time)));
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_input, csv.tokens(input, 1));
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_output, csv.tokens(output, 1));
    request.input_tokens = static_cast<int32_t>(num_input);
    request.output_tokens = static_cast<int32_t>(num_output);
    workload.requests.push_back(request);
  }
  return finish_trace(std::move(workload), name);
}

Result<Workload> parse_burstgpt(std::string_view text, std::string_view name,
                                const TraceOptions& options) {
  CsvReader csv(text, name);
  QUIRE_ASSIGN_OR_RETURN(const size_t time, csv.column("Timestamp"));
  QUIRE_ASSIGN_OR_RETURN(const size_t input, csv.column("Request tokens"));
  QUIRE_ASSIGN_OR_RETURN(const size_t output, csv.column("Response tokens"));
  const std::optional<size_t> session = csv.find("Session ID");
  std::unordered_map<std::string_view, int32_t> sessions;
  Workload workload;
  while (!full(workload, options)) {
    QUIRE_ASSIGN_OR_RETURN(const bool more, csv.next());
    if (!more) break;
    SimRequest request;
    QUIRE_ASSIGN_OR_RETURN(request.arrival_ns, csv.seconds_ns(time));
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_input, csv.tokens(input, 0));
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_output, csv.tokens(output, 0));
    if (num_input == 0 || num_output == 0) continue;  // the request failed
    request.input_tokens = static_cast<int32_t>(num_input);
    request.output_tokens = static_cast<int32_t>(num_output);
    if (session && !csv.field(*session).empty()) {
      const auto next = static_cast<int32_t>(sessions.size());
      request.session = sessions.emplace(csv.field(*session), next).first->second;
    }
    workload.requests.push_back(request);
  }
  return finish_trace(std::move(workload), name);
}

Result<Workload> parse_vidur(std::string_view text, std::string_view name,
                             const TraceOptions& options) {
  CsvReader csv(text, name);
  const std::optional<size_t> time = csv.find("arrived_at");
  QUIRE_ASSIGN_OR_RETURN(const size_t input, csv.column("num_prefill_tokens"));
  QUIRE_ASSIGN_OR_RETURN(const size_t output, csv.column("num_decode_tokens"));
  Workload workload;
  while (!full(workload, options)) {
    QUIRE_ASSIGN_OR_RETURN(const bool more, csv.next());
    if (!more) break;
    SimRequest request;
    if (time) {
      QUIRE_ASSIGN_OR_RETURN(request.arrival_ns, csv.seconds_ns(*time));
    } else if (options.lengths_at) {
      request.arrival_ns = options.lengths_at(static_cast<int64_t>(workload.requests.size()));
    }
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_input, csv.tokens(input, 1));
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_output, csv.tokens(output, 1));
    request.input_tokens = static_cast<int32_t>(num_input);
    request.output_tokens = static_cast<int32_t>(num_output);
    workload.requests.push_back(request);
  }
  return finish_trace(std::move(workload), name);
}

}  // namespace quire::sim
