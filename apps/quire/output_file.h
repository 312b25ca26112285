// These functions write the files that a verb makes when its work is done. The path "-" is standard
// output.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::cli {

inline constexpr std::string_view kStandardOutput = "-";

// Checks that the file can be written. Verbs call it before their work, so that an hour's result is
// not lost to a typing error. It accepts an empty path and leaves nothing behind. kUnavailable
// names the file.
Status check_writable(const std::string& path);

// Writes a file; the error names the file that could not be written.
Status write_file(const std::string& path, const std::string& text);

}  // namespace quire::cli
