#include "media/image_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "base/base64.h"
#include "base/files/file_descriptor.h"

namespace quire {
namespace {

bool has_scheme(std::string_view url, std::string_view scheme) {
  return url.size() >= scheme.size() &&
         std::equal(scheme.begin(), scheme.end(), url.begin(), [](char wanted, char given) {
           return wanted == std::tolower(static_cast<unsigned char>(given));
         });
}

Result<std::string> read_data_url(std::string_view rest, int64_t max_bytes) {
  const size_t comma = rest.find(',');
  if (comma == std::string_view::npos)
    return invalid_argument("expected data:image/…;base64,…, got no comma");
  const std::string_view head = rest.substr(0, comma);
  if (!head.empty() && !head.starts_with("image/") && !head.starts_with(";") &&
      !head.starts_with("application/octet-stream")) {
    return invalid_argument("expected data: of an image, got '{}'", head.substr(0, 60));
  }
  if (!head.ends_with(";base64")) return invalid_argument("expected data: in base64");
  const std::string_view text = rest.substr(comma + 1);
  if (static_cast<int64_t>(text.size()) / 4 * 3 > max_bytes + 3)
    return too_large("image: expected at most {} bytes, got about {}", max_bytes,
                     text.size() / 4 * 3);
  std::optional<std::string> bytes = base64_decode(text);
  if (!bytes) return invalid_argument("expected data: in base64, got something else");
  return std::move(*bytes);
}

std::optional<std::string> unescape(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0)
      return std::nullopt;
    out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  if (out.find('\0') != std::string::npos) return std::nullopt;
  return out;
}

// Returns the path of the open file with links resolved. That path is checked, not the requested
// name, so that no link can be changed between the check and the read.
std::filesystem::path path_of(const FileDescriptor& file) {
  std::error_code ec;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file.get()), ec);
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& dir) {
  const auto [end, rest] = std::mismatch(dir.begin(), dir.end(), path.begin(), path.end());
  return end == dir.end() && rest != path.end();
}

Result<std::string> read_file(std::string_view escaped, const std::string& allowed_dir,
                              int64_t max_bytes) {
  if (allowed_dir.empty()) {
    return invalid_argument(
        "expected a data: URL: this server reads no files (--allowed-local-media-path)");
  }
  const std::optional<std::string> name = unescape(escaped);
  if (!name || !name->starts_with("/"))
    return invalid_argument("expected file:///path, got 'file://{}'", escaped.substr(0, 100));
  std::error_code ec;
  const std::filesystem::path allowed = std::filesystem::canonical(allowed_dir, ec);
  if (ec) return invalid_argument("--allowed-local-media-path: {} cannot be read", allowed_dir);
  // The same error is returned for all files outside of the directory, so that it does not tell
  // which exist.
  const Status outside = invalid_argument(
      "expected a file below the directory of "
      "--allowed-local-media-path");
  if (!is_below(std::filesystem::weakly_canonical(*name, ec), allowed) || ec) return outside;
  const FileDescriptor file(::open(name->c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return not_found("{}: there is no such file", *name);
  if (!is_below(path_of(file), allowed)) return outside;
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return invalid_argument("{}: expected a file", *name);
  if (info.st_size > max_bytes)
    return too_large("image: expected at most {} bytes, got {}", max_bytes, info.st_size);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count <= 0) return data_loss("{}: cannot be read", *name);
    done += static_cast<size_t>(count);
  }
  return bytes;
}

}  // namespace

Result<std::string> read_image_source(std::string_view url, const std::string& allowed_dir,
                                      int64_t max_bytes) {
  constexpr std::string_view kData = "data:", kFile = "file://";
  if (has_scheme(url, kData)) return read_data_url(url.substr(kData.size()), max_bytes);
  if (has_scheme(url, kFile)) return read_file(url.substr(kFile.size()), allowed_dir, max_bytes);
  if (has_scheme(url, "http:") || has_scheme(url, "https:")) {
    return invalid_argument(
        "expected a data: URL: this server fetches nothing from a network, got '{}'",
        url.substr(0, 100));
  }
  return invalid_argument("expected a data: URL, got '{}'", url.substr(0, 100));
}

}  // namespace quire
