#include "base/utf8.h"

#include <cstdint>

namespace quire {
namespace {

// How many continuation bytes follow a lead byte; -1 for a byte that cannot lead.
int num_continuation_bytes(uint8_t lead) {
  if (lead < 0x80) return 0;
  if (lead >= 0xc2 && lead < 0xe0) return 1;
  if (lead >= 0xe0 && lead < 0xf0) return 2;
  if (lead >= 0xf0 && lead < 0xf5) return 3;
  return -1;
}

}  // namespace

bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i++]);
    const int more = num_continuation_bytes(lead);
    if (more < 0) return false;
    uint32_t code = more == 0 ? lead : lead & (0x3fu >> more);
    for (int k = 0; k < more; ++k) {
      if (i >= text.size() || (static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return false;
      code = (code << 6) | (static_cast<uint8_t>(text[i++]) & 0x3fu);
    }
    const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

}  // namespace quire
