#include "server/files/file_store.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/log.h"
#include "server/http/auth.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::string_view kPrefix = "file-", kRecord = ".json", kUnfinished = ".tmp";
constexpr uint64_t kMaxRecordBytes = 64 * 1024;

bool is_id(std::string_view text) {
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + 32) return false;
  return std::ranges::all_of(text.substr(kPrefix.size()), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

bool is_record(std::string_view name) {
  return name.ends_with(kRecord) && is_id(name.substr(0, name.size() - kRecord.size()));
}

// Returns whether an earlier process did not come to the end of the file of this name. The record is
// written last. Files with other names do not belong to the store.
bool is_unfinished(const std::string& name, const std::set<std::string>& all) {
  if (is_id(name)) return !all.contains(name + std::string(kRecord));
  if (!name.ends_with(kUnfinished)) return false;
  const std::string whole = name.substr(0, name.size() - kUnfinished.size());
  return is_id(whole) || is_record(whole);
}

Status unwritable(const std::string& path) {
  return unavailable("{}: cannot be written: is the disk full?", path);
}

}  // namespace

Status write_file(const std::string& path, std::string_view data) {
  const std::string unfinished = path + std::string(kUnfinished);
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file.write(data.data(), static_cast<std::streamsize>(data.size()));
    file.flush();
    if (!file) return unwritable(path);
  }
  std::error_code error;
  fs::rename(unfinished, path, error);
  return error ? unwritable(path) : Status();
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return not_found("{}: cannot be read", path);
  const auto size = static_cast<uint64_t>(file.tellg());
  if (size > max_bytes) return too_large("expected at most {} bytes, got {}", max_bytes, size);
  std::string data(size, '\0');
  file.seekg(0);
  file.read(data.data(), static_cast<std::streamsize>(size));
  if (!file) return not_found("{}: cannot be read", path);
  return data;
}

Result<std::unique_ptr<FileStore>> FileStore::open(const std::string& dir, Limits limits) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (!fs::is_directory(dir, error))
    return invalid_argument("expected a directory that can be written, got {}", dir);
  std::unique_ptr<FileStore> store(new FileStore(dir, limits));
  std::set<std::string> found;  // names in the directory
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error))
    found.insert(at->path().filename().string());
  if (error) return unavailable("{}: cannot be listed: {}", dir, error.message());
  for (const std::string& name : found) {
    if (is_record(name)) store->load(fmt::format("{}/{}", dir, name));
    if (is_unfinished(name, found)) fs::remove(fmt::format("{}/{}", dir, name), error);
  }
  return store;
}

// A record that cannot be read now may be readable at the next start, so nothing is removed.
void FileStore::load(const std::string& record_path) {
  const std::string id = fs::path(record_path).stem().string();
  const Result<std::string> text = read_file(record_path, kMaxRecordBytes);
  const Result<json::value> value =
      text.ok() ? parse_json(*text, 4) : Result<json::value>(text.status());
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(path_of(id), error));
  if (!value.ok() || !value->is_object() || error) {
    const std::string why = !value.ok() ? value.status().message()
                            : error     ? error.message()
                                        : "expected a JSON object";
    log_warn("{}: the file is not listed, and is left as it is: {}", record_path, why);
    return;
  }
  const json::object& record = value->get_object();
  files_[id] = {.id = id,
                .owner = std::string(text_member(record, "owner")),
                .purpose = std::string(text_member(record, "purpose")),
                .filename = std::string(text_member(record, "filename")),
                .bytes = bytes,
                .created_s = count_member(record, "created_at")};
  bytes_ += bytes;
}

std::string FileStore::path_of(std::string_view id) const { return fmt::format("{}/{}", dir_, id); }

Result<FileInfo> FileStore::keep(FileInfo info) {
  const json::object record{{"owner", info.owner},
                            {"purpose", info.purpose},
                            {"filename", info.filename},
                            {"created_at", info.created_s}};
  const Status written =
      write_file(path_of(info.id) + std::string(kRecord), json::serialize(record));
  const std::lock_guard lock(mutex_);
  if (!written.ok()) {
    bytes_ -= info.bytes;
    std::error_code ignored;
    fs::remove(path_of(info.id), ignored);
    return written;
  }
  files_[info.id] = info;
  return info;
}

Result<FileInfo> FileStore::add(FileInfo info, std::string_view data) {
  info.id = std::string(kPrefix) + random_id();
  info.bytes = std::ssize(data);
  {
    const std::lock_guard lock(mutex_);
    if (files_.size() >= limits_.max_files)
      return too_large("file: expected at most {} files, which are there; delete some",
                       limits_.max_files);
    if (info.bytes > limits_.max_bytes - bytes_) {
      return too_large("file: expected at most {} bytes in all files, of which {} are left, got {}",
                       limits_.max_bytes, std::max<int64_t>(limits_.max_bytes - bytes_, 0),
                       info.bytes);
    }
    bytes_ += info.bytes;
  }
  if (Status written = write_file(path_of(info.id), data); !written.ok()) {
    const std::lock_guard lock(mutex_);
    bytes_ -= info.bytes;
    return written;
  }
  return keep(std::move(info));
}

Result<FileInfo> FileStore::adopt(FileInfo info, const std::string& path) {
  info.id = std::string(kPrefix) + random_id();
  std::error_code error;
  info.bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (!error) fs::rename(path, path_of(info.id), error);
  if (error) return unavailable("{}: {}", path, error.message());
  {
    const std::lock_guard lock(mutex_);
    bytes_ += info.bytes;
  }
  return keep(std::move(info));
}

std::optional<FileInfo> FileStore::find(std::string_view id, std::string_view owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.owner != owner) return std::nullopt;
  return found->second;
}

std::vector<FileInfo> FileStore::list(std::string_view owner) const {
  std::vector<FileInfo> mine;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, info] : files_) {
      if (info.owner == owner) mine.push_back(info);
    }
  }
  std::ranges::sort(mine, {}, [](const FileInfo& f) { return std::pair(f.created_s, f.id); });
  return mine;
}

bool FileStore::remove(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.owner != owner) return false;
  std::error_code ignored;
  fs::remove(path_of(id) + std::string(kRecord), ignored);
  fs::remove(path_of(id), ignored);
  bytes_ -= found->second.bytes;
  files_.erase(found);
  return true;
}

Result<std::string> FileStore::read(std::string_view id, uint64_t max_bytes) const {
  return read_file(path_of(id), max_bytes);
}

}  // namespace quire::server
