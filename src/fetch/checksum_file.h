// Files with the SHA-256 of other files, as sha256sum writes and checks them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::fetch {

// The name that such a file has in a folder whose files it lists.
inline constexpr std::string_view kChecksumFile = "SHA256SUMS";

struct ListedFile {
  std::string name;    // with slashes where it lies in a folder; see check_file_name()
  std::string sha256;  // 64 lower-case hex digits
};

// Of lines "HEX  NAME" or "HEX *NAME"; a name may begin with "./". Empty lines, those that begin with #,
// and one for kChecksumFile itself count for nothing. kInvalidArgument: a line is written otherwise, a
// name is not one of check_file_name() or stands twice, or is the folder of another, or there is none.
Result<std::vector<ListedFile>> parse_checksums(std::string_view text, std::string_view where);

// kInvalidArgument: the name is no path to a file below a folder: it is empty or too long, begins with
// a slash, or has a part that is empty, "." or "..", a backslash, or a control character.
Status check_file_name(std::string_view name);

// In lower case. kInvalidArgument: it has not 64 hex digits.
Result<std::string> parse_sha256(std::string_view text);

}  // namespace quire::fetch
