// The first byte of the input chooses what the rest is: a traceparent header, an endpoint, a text
// of metrics, or a text of headers.
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/telemetry/exporter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::server;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 == 0) {
    const auto context = parse_traceparent(text);
    if (context && (context->trace_id.size() != 32 || context->parent_id.size() != 16))
      std::abort();
    if (context && !parse_traceparent(traceparent(*context, context->parent_id))) std::abort();
  } else if (data[0] % 4 == 1) {
    const auto endpoint = parse_otlp_endpoint(text, "/v1/traces");
    if (endpoint.ok() && (endpoint->host.empty() || endpoint->target.front() != '/')) std::abort();
  } else if (data[0] % 4 == 3) {
    const auto headers = parse_otlp_headers(text);
    for (const auto& [name, value] : headers.ok() ? *headers : quire::net::HeaderList()) {
      if (name.empty() || (name + value).find_first_of("\r\n") != std::string::npos) std::abort();
    }
  } else {
    boost::system::error_code ec;
    boost::json::parse(otlp_metrics(text, "s", 0, 1), ec);
    if (ec) std::abort();  // what is sent must be JSON for any text
  }
  return 0;
}
