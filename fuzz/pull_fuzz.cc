// The first byte of the input chooses what the rest is: a file of checksums, an address with its
// redirection, a range of bytes, or the source of a model.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fetch/answer_to_part.h"
#include "fetch/checksum_file.h"
#include "fetch/source.h"
#include "net/url.h"

namespace {

void check_checksums(std::string_view text) {
  const auto files = quire::fetch::parse_checksums(text, "SUMS");
  if (!files.ok()) return;
  for (const quire::fetch::ListedFile& file : *files) {
    if (file.sha256.size() != 64 || file.name.empty() || file.name[0] == '/') std::abort();
    if (("/" + file.name + "/").find("/../") != std::string::npos) std::abort();
  }
}

void check_url(std::string_view text) {
  const size_t line = std::min(text.find('\n'), text.size());
  const auto base = quire::net::parse_url(text.substr(0, line));
  if (!base.ok()) return;
  const auto again = quire::net::parse_url(base->text());
  if (!again.ok() || again->text() != base->text()) std::abort();
  const auto next = quire::net::resolve(*base, text.substr(std::min(line + 1, text.size())));
  if (next.ok() && (next->host.empty() || next->target.find_first_of(" \r\n") != std::string::npos))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      check_checksums(text);
      break;
    case 1:
      check_url(text);
      break;
    case 2: {
      const auto range = quire::fetch::parse_content_range(text);
      if (range.ok() && range->first > range->last) std::abort();
      break;
    }
    default:
      if (text.find("://") != text.npos)
        (void)quire::fetch::parse_source(std::string(text)).status().ok();
  }
  return 0;
}
