// The input is a file of backends. Reading it must give addresses that can be read again, or an
// error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gateway/endpoints_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto found = quire::gateway::parse_endpoints({reinterpret_cast<const char*>(data), size});
  if (!found.ok()) return 0;
  for (const quire::gateway::BackendAddress& address : *found) {
    const auto again = quire::gateway::parse_backend(address.authority());
    if (!again.ok() || !(*again == address)) std::abort();
  }
  return 0;
}
