#include "fetch/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace quire::fetch {
namespace {

namespace fs = std::filesystem;

Status system_error(const std::string& path) {
  return unavailable("{}: {}", path, std::strerror(errno));
}

Status make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return {};
  struct stat info {};
  if (errno != EEXIST || lstat(path.c_str(), &info) != 0) return system_error(path);
  if (S_ISDIR(info.st_mode)) return {};
  return unavailable("{}: expected a folder, got something else", path);
}

// Writes the folder to the disk, so that names survive a loss of power.
Status sync_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(path);
  const bool is_synced = fsync(fd) == 0 || errno == EINVAL;  // some file systems cannot do that
  close(fd);
  return is_synced ? Status() : system_error(path);
}

}  // namespace

Result<Staging> Staging::open(const std::string& directory, const std::string& name) {
  std::error_code ec;
  if (!fs::is_directory(directory, ec))
    return not_found("{}: expected a folder for models, there is none", directory);
  const std::string path = fmt::format("{}/.{}.pull", directory, name);
  QUIRE_RETURN_IF_ERROR(make_folder(path));
  const int lock = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) return system_error(path);
  Staging staging(directory, path, lock);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0)
    return unavailable("{}: another process is pulling {} now", path, name);
  QUIRE_RETURN_IF_ERROR(make_folder(path + "/parts"));
  QUIRE_RETURN_IF_ERROR(make_folder(staging.folder()));
  return staging;
}

Staging::Staging(Staging&& other) noexcept
    : directory_(std::move(other.directory_)),
      path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)) {}

Staging::~Staging() {
  if (lock_ < 0) return;
  for (const std::string& path : {path_ + "/parts", folder(), path_}) rmdir(path.c_str());
  close(lock_);
}

std::string Staging::part_path(const ListedFile& file) const {
  return path_ + "/parts/" + (file.sha256.empty() ? std::string("unchecked") : file.sha256);
}

Result<std::string> Staging::file_path(const std::string& name) const {
  for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1))
    QUIRE_RETURN_IF_ERROR(make_folder(folder() + "/" + name.substr(0, slash)));
  return folder() + "/" + name;
}

uint64_t Staging::size_of(const ListedFile& file) const {
  struct stat info {};
  for (const std::string& path : {folder() + "/" + file.name, part_path(file)}) {
    if (lstat(path.c_str(), &info) == 0) return static_cast<uint64_t>(info.st_size);
  }
  return 0;
}

Result<uint64_t> Staging::free_bytes() const {
  struct statvfs info {};
  if (statvfs(path_.c_str(), &info) != 0) return system_error(path_);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

Status Staging::publish_folder(const std::string& target) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder(), ec)) {
    if (entry.is_directory(ec)) QUIRE_RETURN_IF_ERROR(sync_folder(entry.path().string()));
  }
  QUIRE_RETURN_IF_ERROR(sync_folder(folder()));
  return publish(folder(), target);
}

Status Staging::publish_file(const std::string& name, const std::string& target) {
  return publish(folder() + "/" + name, target);
}

Status Staging::publish(const std::string& from, const std::string& target) {
  std::error_code ec;
  if (fs::exists(fs::symlink_status(target, ec)))
    return invalid_argument("{}: there is something already", target);
  if (std::rename(from.c_str(), target.c_str()) != 0) return system_error(target);
  QUIRE_RETURN_IF_ERROR(sync_folder(directory_));
  fs::remove_all(path_, ec);  // the rest is of no use
  return {};
}

}  // namespace quire::fetch
