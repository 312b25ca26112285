#include "fetch/source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "fetch/checksum_file.h"

namespace quire::fetch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeights = ".gguf";
constexpr std::array<std::string_view, 12> kArchives = {".zip", ".tar",    ".tgz",     ".gz",
                                                        ".tbz", ".tar.xz", ".tar.zst", ".bz2",
                                                        ".xz",  ".zst",    ".7z",      ".rar"};

constexpr std::string_view kExpected =
    "expected a folder, a .gguf file, or the http, https or file URL of either, that of a folder "
    "with / at its end";

Status refuse(const std::string& text, std::string_view path) {
  const bool is_archive = std::any_of(kArchives.begin(), kArchives.end(),
                                      [&](auto ending) { return path.ends_with(ending); });
  if (is_archive)
    return invalid_argument("{}: archives are not unpacked here; {}", text, kExpected);
  return invalid_argument("{}: {}", text, kExpected);
}

// Splits "…/model.gguf" into folder and file, and sets the model's name.
void split_file(std::string_view path, std::string& folder, Source& source) {
  const size_t slash = path.rfind('/');
  folder = slash == path.npos ? "." : std::string(path.substr(0, std::max<size_t>(slash, 1)));
  source.file = path.substr(slash == path.npos ? 0 : slash + 1);
  source.model = source.file.substr(0, source.file.size() - kWeights.size());
}

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

Result<Source> local_source(const std::string& text, const std::string& path) {
  Source source;
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (!fs::exists(status)) {
    return not_found("{}: there is no such folder or file{}", text,
                     text.find(':') == text.npos ? "" : fmt::format("; {}", kExpected));
  }
  source.is_folder = fs::is_directory(status);
  if (source.is_folder) {
    source.path = path;
    source.model = last_part(fs::absolute(path, ec).lexically_normal().string());
    return source;
  }
  if (!path.ends_with(kWeights) || !fs::is_regular_file(status)) return refuse(text, path);
  split_file(path, source.path, source);
  return source;
}

Result<Source> remote_source(const std::string& text) {
  Source source{.is_url = true, .is_remote = true, .url = {}, .path = {}, .file = {}, .model = {}};
  QUIRE_ASSIGN_OR_RETURN(source.url, net::parse_url(text));
  QUIRE_ASSIGN_OR_RETURN(std::string path, net::percent_decoded(source.url.path()));
  const std::string query = source.url.target.substr(source.url.path().size());
  if (path.ends_with("/" + std::string(kChecksumFile)))
    path.resize(path.size() - kChecksumFile.size());
  source.is_folder = path.ends_with('/');
  std::string folder = path;
  if (source.is_folder) {
    source.model = last_part(path);
  } else if (path.ends_with(kWeights)) {
    split_file(path, folder, source);
  } else {
    return refuse(text, path);
  }
  if (!folder.ends_with('/')) folder += '/';
  source.url.target = net::percent_encoded(folder) + query;
  return source;
}

// Reads file:///PATH.
Result<Source> file_source(const std::string& text) {
  std::string_view rest = std::string_view(text).substr(std::string_view("file://").size());
  const std::string_view host = rest.substr(0, rest.find('/'));
  if (host.size() == rest.size() || (!host.empty() && host != "localhost"))
    return invalid_argument("expected file:///PATH, got {}", text);
  QUIRE_ASSIGN_OR_RETURN(const std::string path, net::percent_decoded(rest.substr(host.size())));
  QUIRE_ASSIGN_OR_RETURN(Source source, local_source(text, path));
  source.is_url = true;
  return source;
}

}  // namespace

Result<Source> parse_source(const std::string& text) {
  if (text.starts_with("http://") || text.starts_with("https://")) return remote_source(text);
  if (text.starts_with("file://")) return file_source(text);
  return local_source(text, text);
}

Status check_model_name(const std::string& name) {
  const Status status = check_file_name(name);
  if (status.ok() && name.find('/') == name.npos && name[0] != '.' && name.size() <= 200) return {};
  return invalid_argument(
      "expected a name of at most 200 characters, without slashes and without a dot at its "
      "beginning, got '{}' (--name gives another)",
      name.substr(0, 200));
}

}  // namespace quire::fetch
