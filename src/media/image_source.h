// read_image_source() reads the bytes of a client's image from a data: URL, or from a file under a
// directory that the operator has opened. It never fetches from a network, because a server could
// reach internal hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Reads data:[type];base64,… or file:///… below `allowed_dir` (empty: no files). Returns
// kInvalidArgument for another scheme, a type that is not an image, malformed base64, or a file
// outside of the directory, whether by "..", by escapes or by a link; kTooLarge for more than
// max_bytes; kNotFound if there is no such file.
Result<std::string> read_image_source(std::string_view url, const std::string& allowed_dir,
                                      int64_t max_bytes);

}  // namespace quire
