#include "weights/tensors/file_text.h"

#include <cstdint>
#include <string>

#include "base/utf8.h"

namespace quire {
Status one_line(const Status& status) {
  const bool keep_high = is_valid_utf8(status.message());
  std::string out;
  for (const char c : status.message()) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !keep_high)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return Status(status.code(), std::move(out));
}

}  // namespace quire
