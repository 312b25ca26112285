#include "server/files/multipart.h"

#include <algorithm>

#include "base/text_fields.h"
#include "base/utf8.h"

namespace quire::server {
namespace {

constexpr size_t kMaxParts = 16;
constexpr size_t kMaxHeadBytes = 4096;
constexpr size_t kMaxBoundaryBytes = 70;
constexpr size_t kMaxNameBytes = 256;
constexpr std::string_view kType = "multipart/form-data";

// Returns one value of `a; b=c; d="e"` without its quotes. nullopt: it is absent, or its quotes
// never end.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at != header.npos && at < header.size()) {
    const size_t equals = header.find('=', at);
    if (equals == header.npos) return std::nullopt;
    const std::string_view key = trim(header.substr(at + 1, equals - at - 1));
    std::string value;
    size_t end = equals + 1;
    if (end < header.size() && header[end] == '"') {
      for (++end; end < header.size() && header[end] != '"'; ++end) {
        const bool escapes = header[end] == '\\' && end + 1 < header.size() &&
                             (header[end + 1] == '"' || header[end + 1] == '\\');
        if (escapes) ++end;
        value += header[end];
      }
      if (end >= header.size()) return std::nullopt;
      end = header.find(';', end);
    } else {
      end = header.find(';', end);
      value = trim(header.substr(equals + 1, end == header.npos ? end : end - equals - 1));
    }
    if (equals_ignoring_case(key, name)) return value;
    at = end;
  }
  return std::nullopt;
}

ApiError bad_form(std::string_view what) {
  return api_error(400, fmt::format("expected a form as {}, got {}", kType, what));
}

// Returns the value of a header of a part; nullopt: there is none.
std::optional<std::string_view> header_of(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    const size_t colon = std::min(line.find(':'), line.size());
    if (equals_ignoring_case(trim(line.substr(0, colon)), name))
      return trim(line.substr(std::min(colon + 1, line.size())));
    head.remove_prefix(std::min(end + 2, head.size()));
  }
  return std::nullopt;
}

// `part` begins after the line of its boundary and ends before the next boundary.
ApiResult<FormPart> parse_part(std::string_view part) {
  // In a part without headers the empty line comes first.
  const bool is_bare = part.starts_with("\r\n");
  const size_t head_end = is_bare ? 0 : part.find("\r\n\r\n");
  if (head_end == part.npos || head_end > kMaxHeadBytes)
    return bad_form(fmt::format("a part without a head of at most {} bytes", kMaxHeadBytes));
  const auto disposition = header_of(part.substr(0, head_end), "Content-Disposition");
  if (!disposition || !equals_ignoring_case(disposition->substr(0, 9), "form-data"))
    return bad_form("a part without Content-Disposition: form-data");
  std::optional<std::string> name = parameter(*disposition, "name");
  if (!name || name->empty() || name->size() > kMaxNameBytes)
    return bad_form("a part without a name");
  std::optional<std::string> filename = parameter(*disposition, "filename");
  if (filename && filename->size() > kMaxNameBytes)
    return bad_form(fmt::format("a file name of {} bytes", filename->size()));
  if (filename) filename = to_valid_utf8(*filename);
  return FormPart{to_valid_utf8(*name), std::move(filename),
                  part.substr(head_end + (is_bare ? 2 : 4))};
}

}  // namespace

ApiResult<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body) {
  const size_t type_end = std::min(content_type.find(';'), content_type.size());
  if (!equals_ignoring_case(trim(content_type.substr(0, type_end)), kType))
    return bad_form(content_type.empty() ? std::string("no content type")
                                         : in_quotes(content_type));
  const std::optional<std::string> boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kMaxBoundaryBytes)
    return bad_form("no boundary");
  const std::string first = "--" + *boundary, next = "\r\n" + first;
  size_t at = body.starts_with(first) ? first.size() : body.find(next);
  if (at == body.npos) return bad_form("a body without its boundary");
  if (!body.starts_with(first)) at += next.size();
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    const size_t line_end = body.find("\r\n", at);
    if (line_end == body.npos || !trim(body.substr(at, line_end - at)).empty())
      return bad_form("a boundary with text behind it");
    // The line break of this boundary may also begin the next boundary.
    const size_t end = body.find(next, line_end);
    if (end == body.npos) return bad_form("a body that ends within a part");
    if (parts.size() == kMaxParts) return bad_form(fmt::format("over {} parts", kMaxParts));
    const size_t begin = std::min(line_end + 2, end);
    ApiResult<FormPart> part = parse_part(body.substr(begin, end - begin));
    if (!part.ok()) return part.error();
    parts.push_back(std::move(part).value());
    at = end + next.size();
  }
  return parts;
}

const FormPart* find_part(const std::vector<FormPart>& parts, std::string_view name) {
  const auto found = std::ranges::find(parts, name, &FormPart::name);
  return found == parts.end() ? nullptr : &*found;
}

}  // namespace quire::server
