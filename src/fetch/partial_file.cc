#include "fetch/partial_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "base/text_fields.h"

namespace quire::fetch {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kMaxVersionBytes = 4096;

Status system_error(const std::string& path) {
  const int code = errno;
  if (code == ENOSPC || code == EDQUOT || code == EFBIG)
    return resource_exhausted("{}: {}", path, std::strerror(code));
  return unavailable("{}: {}", path, std::strerror(code));
}

}  // namespace

Result<PartialFile> PartialFile::open(const std::string& path, OnSize on_size) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return system_error(path);
  PartialFile file(path, fd, std::move(on_size));
  QUIRE_RETURN_IF_ERROR(file.read_what_is_there());
  return file;
}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      on_size_(std::move(other.on_size_)),
      version_(std::move(other.version_)),
      size_bytes_(other.size_bytes_),
      hash_(std::move(other.hash_)) {}

PartialFile::~PartialFile() {
  if (fd_ >= 0) close(fd_);
}

Status PartialFile::read_what_is_there() {
  std::vector<char> piece(kPieceBytes);
  while (true) {
    const ssize_t n = read(fd_, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path_);
    if (n == 0) break;
    hash_.add({piece.data(), static_cast<size_t>(n)});
    size_bytes_ += static_cast<uint64_t>(n);
  }
  if (size_bytes_ == 0) return {};
  if (const Result<std::string> version = read_text(version_path(), kMaxVersionBytes); version.ok())
    version_ = *version;
  if (on_size_) on_size_(size_bytes_);
  return {};
}

Status PartialFile::begin(const std::string& version) {
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0) return system_error(path_);
  hash_ = Sha256();
  size_bytes_ = 0;
  version_ = version;
  std::remove(version_path().c_str());
  if (!version.empty() &&
      !(std::ofstream(version_path(), std::ios::binary) << version << std::flush))
    return system_error(version_path());
  if (on_size_) on_size_(0);
  return {};
}

Status PartialFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error(path_);
    hash_.add(bytes.substr(0, static_cast<size_t>(n)));
    size_bytes_ += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (on_size_) on_size_(size_bytes_);
  return {};
}

Status PartialFile::finish(const std::string& path) {
  if (fsync(fd_) != 0) return system_error(path_);
  if (std::rename(path_.c_str(), path.c_str()) != 0) return system_error(path);
  std::remove(version_path().c_str());
  return {};
}

void PartialFile::remove() {
  std::remove(path_.c_str());
  std::remove(version_path().c_str());
}

}  // namespace quire::fetch
