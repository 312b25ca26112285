// The input is a byte that sets the size of pieces, and a server's event stream. Reading and
// folding it must give a result or an error.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/sse.h"
#include "server/openai/response_fold.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = 1 + data[0] % 64;
  quire::server::SseReader reader(64 * 1024);
  quire::server::ResponseFold fold(data[0] % 2 == 0 ? quire::server::Endpoint::kChat
                                                    : quire::server::Endpoint::kCompletions);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    if (!reader.feed(bytes.substr(at, piece))) return 0;
    while (auto event = reader.next()) {
      boost::json::error_code ec;
      boost::json::value value = boost::json::parse(*event, ec);
      if (ec || !value.is_object()) continue;
      if (!fold.add(std::move(value).as_object()).ok()) return 0;
    }
  }
  (void)boost::json::serialize(fold.finish());
  return 0;
}
