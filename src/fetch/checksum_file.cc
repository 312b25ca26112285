#include "fetch/checksum_file.h"

#include <algorithm>
#include <set>

#include "base/text_fields.h"
#include "base/utf8.h"

namespace quire::fetch {
namespace {

constexpr size_t kHexDigits = 64;
constexpr size_t kMaxNameBytes = 1024, kMaxPartBytes = 255, kMaxParts = 16;
constexpr size_t kMaxFiles = 100'000;

// Returns the beginning of a text from elsewhere, without characters that a terminal would take for
// commands.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 2 * kHexDigits));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  }
  return to_valid_utf8(out);
}

Result<ListedFile> parse_line(std::string_view line) {
  if (line.size() < kHexDigits + 3 || line[kHexDigits] != ' ' ||
      (line[kHexDigits + 1] != ' ' && line[kHexDigits + 1] != '*')) {
    return invalid_argument("expected 64 hex digits, two blanks and a name, got {}", shown(line));
  }
  ListedFile file;
  QUIRE_ASSIGN_OR_RETURN(file.sha256, parse_sha256(line.substr(0, kHexDigits)));
  std::string_view name = line.substr(kHexDigits + 2);
  if (name.starts_with("./")) name.remove_prefix(2);
  QUIRE_RETURN_IF_ERROR(check_file_name(name));
  file.name = name;
  return file;
}

// Returns an error when a name is both a file and a folder.
Status check_folders(const std::set<std::string, std::less<>>& names) {
  for (const std::string_view name : names) {
    for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
      if (names.contains(name.substr(0, slash)))
        return invalid_argument("{} is listed as a file, and as the folder of {}",
                                name.substr(0, slash), name);
    }
  }
  return {};
}

}  // namespace

Result<std::string> parse_sha256(std::string_view text) {
  std::string digits;
  for (const char c : text) digits += c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (digits.size() != kHexDigits || digits.find_first_not_of("0123456789abcdef") != digits.npos)
    return invalid_argument("expected a SHA-256 of 64 hex digits, got {}", shown(text));
  return digits;
}

Status check_file_name(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return invalid_argument("expected the path of a file within its folder, got {}: {}",
                            shown(name), why);
  };
  if (name.empty() || name.size() > kMaxNameBytes) return refuse("it is empty or too long");
  if (name[0] == '/') return refuse("it begins at the root");
  for (const char c : name) {
    if (c == '\\' || static_cast<unsigned char>(c) < ' ' || c == 127)
      return refuse("it has a backslash or a control character");
  }
  const std::vector<std::string_view> parts = split(name, '/');
  if (parts.size() > kMaxParts) return refuse("it is nested too deeply");
  for (const std::string_view part : parts) {
    if (part.empty() || part == "." || part == "..") return refuse("it leaves its folder");
    if (part.size() > kMaxPartBytes) return refuse("a part of it is too long");
  }
  return {};
}

Result<std::vector<ListedFile>> parse_checksums(std::string_view text, std::string_view where) {
  LineReader lines(text, where);
  std::vector<ListedFile> files;
  std::set<std::string, std::less<>> names;
  while (const auto line = lines.next()) {
    if (line->empty() || line->front() == '#') continue;
    Result<ListedFile> file = parse_line(*line);
    if (!file.ok()) return file.status().with_context(lines.where());
    if (file->name == kChecksumFile) continue;
    if (!names.insert(file->name).second)
      return invalid_argument("{}: {} is listed twice", lines.where(), file->name);
    if (files.size() == kMaxFiles)
      return invalid_argument("{}: expected at most {} files", where, kMaxFiles);
    files.push_back(std::move(file).value());
  }
  if (files.empty()) return invalid_argument("{}: expected lines with files, got none", where);
  const Status status = check_folders(names);
  if (!status.ok()) return status.with_context(where);
  return files;
}

}  // namespace quire::fetch
