// Small files in which a start keeps what the next one would have to measure or compute again.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Writes `path`, and creates its folder if needed. Readers see either the old file or the whole new
// one, also if other processes write it at the same time. kUnavailable: it cannot be written.
Status keep_text(std::string_view text, const std::string& path);

}  // namespace quire
