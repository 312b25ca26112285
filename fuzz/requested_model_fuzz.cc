// The input is a byte that chooses JSON or a form, and the body of a request.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "server/models/requested_model.h"
#include "server/ollama/keep_alive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  quire::server::HttpRequest request;
  request.method = "POST";
  request.headers = {
      {"Content-Type", data[0] % 2 == 0 ? "application/json" : "multipart/form-data; boundary=x"}};
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string name = quire::server::requested_model(request);
  if (name.size() > 1024) std::abort();
  const auto keep_alive =
      quire::server::parse_keep_alive_us(boost::json::value(boost::json::string(request.body)));
  if (keep_alive.ok() && keep_alive.value() && *keep_alive.value() < 0) std::abort();
  return 0;
}
