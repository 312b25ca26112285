// A verb writes these files when its work is done. The path "-" is standard output.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::cli {

inline constexpr std::string_view kStandardOutput = "-";

// Checks before the work that the file can be written, so that an hour's result is not lost to a
// typing error. An empty path is accepted, and nothing is left behind. kUnavailable names the file.
Status check_writable(const std::string& path);

// Writes a file; the error names the file that could not be written.
Status write_file(const std::string& path, const std::string& text);

}  // namespace quire::cli
