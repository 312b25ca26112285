// The input is a file of API keys.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "server/keys/key_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto keys = quire::server::parse_key_file({reinterpret_cast<const char*>(data), size});
  if (!keys.ok()) {
    if (keys.status().message().empty()) std::abort();
    return 0;
  }
  for (const quire::server::KeySpec& key : *keys) {
    if (key.name.empty() || key.digest.size() != 64) std::abort();
    quire::server::KeyLimiter limiter(key.limits, 0);
    if (limiter.enter(1)) std::abort();  // a limit is at least one
    limiter.charge_tokens(INT64_MAX, 2);
    if (limiter.tokens() != nullptr && limiter.tokens()->us_to_one() <= 0) std::abort();
  }
  return 0;
}
