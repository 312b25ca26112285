// Files that a verb writes when its work is done.
#pragma once

#include <string>

#include "base/result.h"

namespace quire::cli {

// Asked before the work, so that an hour's result is not lost to a typing error. An empty path is
// fine; nothing is left behind. kUnavailable names the file.
Status check_writable(const std::string& path);

// Writes a file, or says which could not be written.
Status write_file(const std::string& path, const std::string& text);

}  // namespace quire::cli
