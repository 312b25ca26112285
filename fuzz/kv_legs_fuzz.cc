// The input is a client's request, a zero byte and the answer of a prefill server. If the request
// is a JSON object, both legs must be, too.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/kv_legs.h"

namespace {

bool is_object(std::string_view text) {
  boost::system::error_code ec;
  const boost::json::value value = boost::json::parse(text, ec);
  return !ec && value.is_object();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\0'), text.size());
  quire::server::HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = text.substr(0, end);
  const auto first = quire::gateway::prefill_body(request);
  if (!first) return 0;
  if (!is_object(*first)) std::abort();
  const std::string_view answer = end < text.size() ? text.substr(end + 1) : "";
  if (!is_object(quire::gateway::decode_body(request.body, answer))) std::abort();
  return 0;
}
