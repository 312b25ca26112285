// Where the bytes of a client's image come from: a data: URL, or a file under a directory that the
// operator has opened. Nothing is ever fetched from a network, on whose inner side a server is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// data:[type];base64,… or file:///… below `allowed_dir` (empty: no files). kInvalidArgument: another
// scheme, a type that is no image, base64 that is none, or a file outside of the directory, be it
// by "..", by escapes or by a link. kTooLarge: more than max_bytes. kNotFound: no such file.
Result<std::string> read_image_source(std::string_view url, const std::string& allowed_dir,
                                      int64_t max_bytes);

}  // namespace quire
