// These functions read files with the SHA-256 of other files, as sha256sum writes and checks them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::fetch {

// The name of the checksum file in a folder whose files it lists.
inline constexpr std::string_view kChecksumFile = "SHA256SUMS";

struct ListedFile {
  std::string name;    // with slashes when it is in a folder; see check_file_name()
  std::string sha256;  // 64 lower-case hex digits
};

// Reads lines "HEX  NAME" or "HEX *NAME"; a name may begin with "./". Empty lines, lines that begin
// with # and a line for kChecksumFile itself are skipped. kInvalidArgument: a line has another
// form, check_file_name() refuses a name, a name occurs twice or is a folder of another name, or
// there is no name at all.
Result<std::vector<ListedFile>> parse_checksums(std::string_view text, std::string_view where);

// kInvalidArgument: the name is no path to a file below a folder. It is empty or too long, begins
// with a slash, has a part that is empty, "." or "..", or has a backslash or a control character.
Status check_file_name(std::string_view name);

// Returns the digest in lower case. kInvalidArgument: the text is not 64 hex digits.
Result<std::string> parse_sha256(std::string_view text);

}  // namespace quire::fetch
