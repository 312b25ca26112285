// The input is a byte that sets the size of pieces, and raw HTTP requests. They must be parsed
// alike however the bytes are split.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_request_reader.h"

namespace {

using quire::server::HttpRequest;
using quire::server::HttpRequestReader;

struct Outcome {
  std::vector<HttpRequest> requests;
  bool failed = false;
};

Outcome read(std::string_view bytes, size_t piece) {
  quire::ServerLimits limits;
  limits.body_bytes = 4096;
  HttpRequestReader reader(limits);
  Outcome outcome;
  for (size_t at = 0; at < bytes.size() && !outcome.failed; at += piece) {
    reader.append(bytes.substr(at, piece));
    for (bool more = true; more;) {
      switch (reader.advance()) {
        case HttpRequestReader::State::kNeedMore:
          more = false;
          break;
        case HttpRequestReader::State::kHeader:
          break;
        case HttpRequestReader::State::kComplete:
          outcome.requests.push_back(reader.take());
          break;
        case HttpRequestReader::State::kError:
          if (reader.error_status() < 400 || reader.error_message().empty()) std::abort();
          outcome.failed = true;
          more = false;
          break;
      }
    }
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 32 * 1024) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = read(bytes, bytes.size() + 1);
  const Outcome cut = read(bytes, 1 + data[0] % 32);
  if (whole.requests.size() != cut.requests.size()) std::abort();
  for (size_t i = 0; i < whole.requests.size(); ++i) {
    if (whole.requests[i].body != cut.requests[i].body ||
        whole.requests[i].path != cut.requests[i].path ||
        whole.requests[i].headers != cut.requests[i].headers) {
      std::abort();
    }
    if (whole.requests[i].body.size() > 4096) std::abort();
  }
  return 0;
}
