// Quire's own trace format stores all data of a Workload.
//
//   {"format":"quire-trace","version":1,"name":"…","hash_block_tokens":16,"concurrency":8,
//    "think_ns":0}
//   {"t":0,"in":100,"out":20,"content":"9e37…","prefix":["…",64],"hash":["…",…],"after":3,…}
//
// Streams are hexadecimal, because many JSON readers do not keep 64-bit numbers. Fields with their
// default are left out.
#include <fmt/ranges.h>

#include <boost/json/value.hpp>
#include <charconv>

#include "base/text_fields.h"
#include "sim/workload/trace_formats.h"

namespace quire::sim {
namespace {

namespace json = boost::json;

constexpr int64_t kMostNs = kMaxTimeNs;
constexpr int64_t kMostIndex = int64_t{1} << 30;

Result<uint64_t> parse_stream(const json::value* value, const std::string& what) {
  if (value != nullptr && value->is_string()) {
    const std::string_view text = value->get_string();
    uint64_t stream = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), stream, 16);
    if (error == std::errc() && end == text.data() + text.size()) return stream;
  }
  return invalid_argument("{}: expected a stream of up to 16 hexadecimal digits", what);
}

Status read_header(std::string_view line, const std::string& where, Workload& workload) {
  QUIRE_ASSIGN_OR_RETURN(const json::object header, parse_object(line, where));
  const json::value* format = header.if_contains("format");
  if (format == nullptr || !format->is_string() || format->get_string() != "quire-trace") {
    return invalid_argument("{}: expected a header with format \"quire-trace\"", where);
  }
  QUIRE_RETURN_IF_ERROR(integer_field(header, "version", 1, 1, where).status());
  if (header.contains("hash_block_tokens")) {
    QUIRE_ASSIGN_OR_RETURN(const int64_t tokens,
                           integer_field(header, "hash_block_tokens", 1, kMaxTraceTokens, where));
    workload.hash_block_tokens = static_cast<int32_t>(tokens);
  }
  if (header.contains("concurrency")) {
    ClosedLoop loop;
    QUIRE_ASSIGN_OR_RETURN(const int64_t concurrency,
                           integer_field(header, "concurrency", 1, kMostIndex, where));
    QUIRE_ASSIGN_OR_RETURN(loop.think_ns, integer_field(header, "think_ns", 0, kMostNs, where));
    loop.concurrency = static_cast<int32_t>(concurrency);
    workload.closed_loop = loop;
  }
  if (const json::value* items = header.if_contains("picture_items")) {
    constexpr size_t kMostItems = 1024;
    const bool is_list = items->is_array() && items->get_array().size() <= kMostItems;
    for (size_t i = 0; is_list && i < items->get_array().size(); ++i) {
      const json::value& item = items->get_array()[i];
      const int64_t tokens = item.is_int64() ? item.get_int64() : 0;
      if (tokens < 1 || tokens > 1 << 16)
        return invalid_argument("{}: picture_items: expected 1 to 65536 tokens", where);
      workload.picture_items.push_back(static_cast<int32_t>(tokens));
    }
    if (!is_list)
      return invalid_argument("{}: picture_items: expected a list of at most {}", where,
                              kMostItems);
  }
  if (const json::value* name = header.if_contains("name"); name && name->is_string()) {
    workload.name = std::string(name->get_string());
  }
  return {};
}

Status read_prefix(const json::value& value, const std::string& where, SimRequest& request) {
  const std::string what = where + ": prefix";
  if (!value.is_array() || value.get_array().size() != 2) {
    return invalid_argument("{}: expected [stream, tokens]", what);
  }
  QUIRE_ASSIGN_OR_RETURN(request.prefix, parse_stream(&value.get_array()[0], what));
  const json::value& tokens = value.get_array()[1];
  if (!tokens.is_int64() || tokens.get_int64() < 0 || tokens.get_int64() > kMaxTraceTokens) {
    return invalid_argument("{}: expected [stream, tokens]", what);
  }
  request.prefix_tokens = static_cast<int32_t>(tokens.get_int64());
  return {};
}

Status read_hash(const json::value& value, const std::string& where, Workload& workload,
                 SimRequest& request) {
  if (!value.is_array() || workload.hash_block_tokens < 1) {
    return invalid_argument("{}: hash: expected an array, and hash_block_tokens in the header",
                            where);
  }
  request.first_hash_block = static_cast<int64_t>(workload.hash_blocks.size());
  request.num_hash_blocks = static_cast<int32_t>(value.get_array().size());
  for (const json::value& block : value.get_array()) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t stream, parse_stream(&block, where + ": hash"));
    workload.hash_blocks.push_back(stream);
  }
  return {};
}

Status read_request(std::string_view line, const std::string& where, Workload& workload) {
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_object(line, where));
  SimRequest request;
  const auto optional_field = [&](std::string_view key, int64_t low, int64_t high,
                                  int32_t& out) -> Status {
    if (!object.contains(key)) return {};
    QUIRE_ASSIGN_OR_RETURN(const int64_t value, integer_field(object, key, low, high, where));
    out = static_cast<int32_t>(value);
    return {};
  };
  QUIRE_ASSIGN_OR_RETURN(request.arrival_ns, integer_field(object, "t", 0, kMostNs, where));
  if (object.contains("delay")) {
    QUIRE_ASSIGN_OR_RETURN(request.delay_ns, integer_field(object, "delay", 0, kMostNs, where));
  }
  QUIRE_ASSIGN_OR_RETURN(const int64_t input,
                         integer_field(object, "in", 1, kMaxTraceTokens, where));
  QUIRE_ASSIGN_OR_RETURN(const int64_t output,
                         integer_field(object, "out", 1, kMaxTraceTokens, where));
  request.input_tokens = static_cast<int32_t>(input);
  request.output_tokens = static_cast<int32_t>(output);
  QUIRE_ASSIGN_OR_RETURN(request.content,
                         parse_stream(object.if_contains("content"), where + ": content"));
  const auto num_before = static_cast<int64_t>(workload.requests.size());
  QUIRE_RETURN_IF_ERROR(optional_field("after", 0, num_before - 1, request.previous));
  QUIRE_RETURN_IF_ERROR(optional_field("session", 0, kMostIndex, request.session));
  QUIRE_RETURN_IF_ERROR(optional_field("priority", -kMostIndex, kMostIndex, request.priority));
  QUIRE_RETURN_IF_ERROR(optional_field("adapter", 0, kMostIndex, request.adapter));
  QUIRE_RETURN_IF_ERROR(optional_field("pictures", 0, 4096, request.num_pictures));
  if (const json::value* prefix = object.if_contains("prefix")) {
    QUIRE_RETURN_IF_ERROR(read_prefix(*prefix, where, request));
  }
  if (const json::value* hash = object.if_contains("hash")) {
    QUIRE_RETURN_IF_ERROR(read_hash(*hash, where, workload, request));
  }
  workload.requests.push_back(request);
  return {};
}

}  // namespace

Result<Workload> parse_quire(std::string_view text, std::string_view name,
                             const TraceOptions& options) {
  Workload workload;
  LineReader lines(text, name);
  const auto header = lines.next();
  if (!header) return invalid_argument("{}: is empty", name);
  QUIRE_RETURN_IF_ERROR(read_header(*header, lines.where(), workload));
  while (static_cast<int64_t>(workload.requests.size()) < options.max_requests) {
    const auto line = lines.next();
    if (!line) break;
    if (trim(*line).empty()) continue;
    QUIRE_RETURN_IF_ERROR(read_request(*line, lines.where(), workload));
  }
  if (workload.requests.empty()) return invalid_argument("{}: holds no requests", name);
  QUIRE_RETURN_IF_ERROR(workload.validate().with_context(name));
  return workload;
}

std::string write_trace(const Workload& workload) {
  std::string name;
  for (const char c : workload.name) {
    const bool plain = c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
    name += plain ? c : '_';
  }
  std::string out = fmt::format(R"({{"format":"quire-trace","version":1,"name":"{}")", name);
  if (workload.hash_block_tokens > 0) {
    out += fmt::format(R"(,"hash_block_tokens":{})", workload.hash_block_tokens);
  }
  if (!workload.picture_items.empty())
    out += fmt::format(R"(,"picture_items":[{}])", fmt::join(workload.picture_items, ","));
  if (workload.closed_loop) {
    out += fmt::format(R"(,"concurrency":{},"think_ns":{})", workload.closed_loop->concurrency,
                       workload.closed_loop->think_ns);
  }
  out += "}\n";
  for (const SimRequest& r : workload.requests) {
    fmt::format_to(std::back_inserter(out), R"({{"t":{},"in":{},"out":{},"content":"{:x}")",
                   r.arrival_ns, r.input_tokens, r.output_tokens, r.content);
    if (r.delay_ns > 0) fmt::format_to(std::back_inserter(out), R"(,"delay":{})", r.delay_ns);
    if (r.prefix_tokens > 0 || r.prefix != 0) {
      fmt::format_to(std::back_inserter(out), R"(,"prefix":["{:x}",{}])", r.prefix,
                     r.prefix_tokens);
    }
    if (r.previous >= 0) fmt::format_to(std::back_inserter(out), R"(,"after":{})", r.previous);
    if (r.session >= 0) fmt::format_to(std::back_inserter(out), R"(,"session":{})", r.session);
    if (r.priority != 0) fmt::format_to(std::back_inserter(out), R"(,"priority":{})", r.priority);
    if (r.adapter != 0) fmt::format_to(std::back_inserter(out), R"(,"adapter":{})", r.adapter);
    if (r.num_pictures != 0)
      fmt::format_to(std::back_inserter(out), R"(,"pictures":{})", r.num_pictures);
    for (int32_t i = 0; i < r.num_hash_blocks; ++i) {
      fmt::format_to(std::back_inserter(out), R"({}"{:x}")", i == 0 ? R"(,"hash":[)" : ",",
                     workload.hash_blocks[static_cast<size_t>(r.first_hash_block + i)]);
    }
    out += r.num_hash_blocks > 0 ? "]}\n" : "}\n";
  }
  return out;
}

}  // namespace quire::sim
