// The input is the length of a content type (one byte), the content type, and the body of a form.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "server/files/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t type_size = std::min<size_t>(data[0], size - 1);
  const std::string_view body = all.substr(1 + type_size);
  const auto parts = quire::server::parse_form(all.substr(1, type_size), body);
  if (!parts.ok()) {
    if (parts.error().status != 400 || parts.error().message.empty()) std::abort();
    return 0;
  }
  for (const quire::server::FormPart& part : parts.value()) {
    if (part.name.empty()) std::abort();
    const bool lies_within = part.data.data() >= body.data() &&
                             part.data.data() + part.data.size() <= body.data() + body.size();
    if (!lies_within) std::abort();
  }
  return 0;
}
