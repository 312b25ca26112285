// This is a parser of forms with files: multipart/form-data (RFC 7578).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/api_error.h"

namespace quire::server {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;
  std::string_view data;  // within the body
};

// Accepts at most 16 parts with heads of at most 4 KiB. An error has status 400 and says what was
// expected and what came.
ApiResult<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body);

// Returns null when there is no such part.
const FormPart* find_part(const std::vector<FormPart>& parts, std::string_view name);

}  // namespace quire::server
