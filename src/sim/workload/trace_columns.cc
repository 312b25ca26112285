// This file reads traces without a published format: CSV with a header, or JSON lines, whose
// columns have usual names.
#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <iterator>
#include <unordered_map>

#include "sim/workload/csv_reader.h"
#include "sim/workload/trace_formats.h"

namespace quire::sim {
namespace {

enum class ColumnRole : uint8_t { kTime, kInput, kOutput, kSession };
constexpr size_t kNumRoles = 4;
constexpr std::string_view kRoleNames[kNumRoles] = {"time", "input tokens", "output tokens",
                                                    "session"};

// Names in lower case, without separators and units.
constexpr std::string_view kTimes[] = {
    "timestamp", "time",        "arrival",          "arrivaltime",  "arrivedat", "arrivaltimestamp",
    "starttime", "requesttime", "requesttimestamp", "creationtime", "createdat", "senttime"};
constexpr std::string_view kInputs[] = {
    "inputtokens",      "inputlength",     "inputlen",       "inputtoks",
    "prompttokens",     "promptlength",    "promptlen",      "promptsize",
    "contexttokens",    "contextlength",   "requesttokens",  "prefilltokens",
    "numprefilltokens", "numprompttokens", "numinputtokens", "isl"};
constexpr std::string_view kOutputs[] = {
    "outputtokens",     "outputlength",        "outputlen",          "outputtoks",
    "completiontokens", "completionlength",    "generatedtokens",    "generationtokens",
    "responsetokens",   "decodetokens",        "numdecodetokens",    "numoutputtokens",
    "tokensize",        "numcompletiontokens", "numgeneratedtokens", "osl"};
constexpr std::string_view kSessions[] = {"session", "sessionid", "conversationid", "chatid",
                                          "conversation"};

struct Column {
  std::optional<ColumnRole> role;
  double unit_ns = 1e9;  // of times that are numbers
};

// Returns the meaning of a column by its name: "arrival_time", "Arrival Time [ms]", "promptTokens".
Column column_of(std::string_view name) {
  std::string words;  // in lower case, with one underscore for each separator
  for (const char c : trim(name)) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool word = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (word) words.push_back(upper ? static_cast<char>(c - 'A' + 'a') : c);
    if (!word && !words.empty() && words.back() != '_') words.push_back('_');
  }
  if (words.ends_with('_')) words.pop_back();
  Column column;
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"_ms", 1e6}, {"_us", 1e3}, {"_ns", 1}, {"_s", 1e9}, {"_sec", 1e9}, {"_seconds", 1e9}};
  for (const auto& [suffix, ns] : kUnits) {
    if (!words.ends_with(suffix)) continue;
    words.resize(words.size() - suffix.size());
    column.unit_ns = ns;
    break;
  }
  std::erase(words, '_');
  const auto is_one_of = [&words](const auto& names) {
    return std::find(std::begin(names), std::end(names), words) != std::end(names);
  };
  if (is_one_of(kTimes)) column.role = ColumnRole::kTime;
  if (is_one_of(kInputs)) column.role = ColumnRole::kInput;
  if (is_one_of(kOutputs)) column.role = ColumnRole::kOutput;
  if (is_one_of(kSessions)) column.role = ColumnRole::kSession;
  return column;
}

// A Field is the text of a value, and where it is.
struct Field {
  std::string text;
  std::string where;  // file, line and column
  double unit_ns = 1e9;
};
using Row = std::array<std::optional<Field>, kNumRoles>;

Status put(Row& row, std::string_view name, std::string_view text, const std::string& where) {
  const Column column = column_of(name);
  if (!column.role) return {};
  std::optional<Field>& field = row[static_cast<size_t>(*column.role)];
  if (field) {
    return invalid_argument("{}: expected one column of {}, got '{}' as well", where,
                            kRoleNames[static_cast<size_t>(*column.role)], trim(name));
  }
  field = Field{.text = std::string(text),
                .where = fmt::format("{}: {}", where, trim(name)),
                .unit_ns = column.unit_ns};
  return {};
}

Result<std::optional<Row>> next_csv_row(CsvReader& csv) {
  QUIRE_ASSIGN_OR_RETURN(const bool more, csv.next());
  if (!more) return std::optional<Row>();
  Row row;
  for (size_t i = 0; i < csv.names().size(); ++i) {
    QUIRE_RETURN_IF_ERROR(put(row, csv.names()[i], csv.field(i), csv.where()));
  }
  return std::optional<Row>(std::move(row));
}

Result<std::optional<Row>> next_json_row(LineReader& lines) {
  std::optional<std::string_view> line;
  do {
    line = lines.next();
    if (!line) return std::optional<Row>();
  } while (trim(*line).empty());
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, parse_object(*line, lines.where()));
  Row row;
  for (const auto& [key, value] : object) {
    const std::string text =
        value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value);
    QUIRE_RETURN_IF_ERROR(put(row, key, text, lines.where()));
  }
  return std::optional<Row>(std::move(row));
}

Result<int64_t> time_ns(const Field& field) {
  if (field.text.find(':') != std::string::npos) {
    return parse_date_time_ns(field.text, field.where);
  }
  const double most = kMaxTraceSeconds * 1e9 / field.unit_ns;
  QUIRE_ASSIGN_OR_RETURN(const double time, parse_number(field.text, 0, most, field.where));
  return std::llround(time * field.unit_ns);
}

Result<int64_t> tokens(const Row& row, ColumnRole role, const std::string& where) {
  const std::optional<Field>& field = row[static_cast<size_t>(role)];
  if (!field) {
    return invalid_argument(
        "{}: expected a column of {}, for example {}", where, kRoleNames[static_cast<size_t>(role)],
        role == ColumnRole::kInput ? "input_tokens or prompt_tokens" : "output_tokens");
  }
  return parse_integer(field->text, 0, kMaxTraceTokens, field->where);
}

}  // namespace

bool has_usual_columns(std::string_view line) {
  Row row;
  if (line.starts_with('{')) {
    LineReader lines(line, {});
    const auto parsed = next_json_row(lines);
    if (parsed.ok() && *parsed) row = **parsed;
  } else {
    for (const std::string_view name : split_csv(line)) (void)put(row, name, {}, {});
  }
  return row[static_cast<size_t>(ColumnRole::kInput)] &&
         row[static_cast<size_t>(ColumnRole::kOutput)];
}

Result<Workload> parse_columns(std::string_view text, std::string_view name,
                               const TraceOptions& options) {
  const bool is_json = trim(text).starts_with('{');
  LineReader lines(is_json ? text : std::string_view(), name);
  CsvReader csv(is_json ? std::string_view() : text, name);
  std::unordered_map<std::string, int32_t> sessions;
  Workload workload;
  while (static_cast<int64_t>(workload.requests.size()) < options.max_requests) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<Row> row,
                           is_json ? next_json_row(lines) : next_csv_row(csv));
    if (!row) break;
    const std::string where = is_json ? lines.where() : csv.where();
    SimRequest request;
    if (const auto& time = (*row)[static_cast<size_t>(ColumnRole::kTime)]) {
      QUIRE_ASSIGN_OR_RETURN(request.arrival_ns, time_ns(*time));
    } else if (options.lengths_at) {
      request.arrival_ns = options.lengths_at(static_cast<int64_t>(workload.requests.size()));
    }
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_input, tokens(*row, ColumnRole::kInput, where));
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_output, tokens(*row, ColumnRole::kOutput, where));
    if (num_input == 0 || num_output == 0) continue;  // the request failed
    request.input_tokens = static_cast<int32_t>(num_input);
    request.output_tokens = static_cast<int32_t>(num_output);
    const auto& session = (*row)[static_cast<size_t>(ColumnRole::kSession)];
    if (session && !session->text.empty() && session->text != "null") {
      const auto next = static_cast<int32_t>(sessions.size());
      request.session = sessions.emplace(session->text, next).first->second;
    }
    workload.requests.push_back(request);
  }
  return finish_trace(std::move(workload), name);
}

}  // namespace quire::sim
