#include "quantize/shard_writer.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace quire {
namespace {

Status system_error(std::string_view what, const std::string& path) {
  return internal_error("{}: {}: {}", path, what, std::strerror(errno));
}

// Returns the length and the JSON that safetensors files begin with.
std::string header_of(const std::vector<WriteTensor>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  int64_t begin = 0;
  for (const WriteTensor& tensor : tensors) {
    const int64_t end = begin + tensor.bytes();
    const boost::json::string name(tensor.name.data(), tensor.name.size());
    json += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        boost::json::serialize(name), tensor.type_name,
                        fmt::join(tensor.shape, ","), begin, end);
    begin = end;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t size = json.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + json;
}

int64_t data_bytes(const std::vector<WriteTensor>& tensors) {
  int64_t bytes = 0;
  for (const WriteTensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

}  // namespace

struct ShardWriter::State {
  std::string path;
  int fd = -1;
  int64_t remaining = 0;  // bytes that are still to be appended
  ~State() {
    if (fd >= 0) ::close(fd);
  }
  std::string partial() const { return path + ".partial"; }
  Status write_all(const char* data, size_t size) {
    while (size > 0) {
      const ssize_t written = ::write(fd, data, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return system_error("cannot write", partial());
      data += written;
      size -= static_cast<size_t>(written);
    }
    return {};
  }
};

ShardWriter::ShardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter& ShardWriter::operator=(ShardWriter&&) noexcept = default;
ShardWriter::~ShardWriter() = default;

bool is_whole_shard(const std::string& path, const std::vector<WriteTensor>& tensors) {
  const std::string header = header_of(tensors);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error || size != header.size() + static_cast<uint64_t>(data_bytes(tensors))) return false;
  std::ifstream file(path, std::ios::binary);
  std::string begin(header.size(), '\0');
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == header;
}

Result<ShardWriter> ShardWriter::create(std::string path, const std::vector<WriteTensor>& tensors) {
  auto state = std::make_unique<State>();
  state->path = std::move(path);
  state->fd = ::open(state->partial().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (state->fd < 0) return system_error("cannot create", state->partial());
  const std::string header = header_of(tensors);
  QUIRE_RETURN_IF_ERROR(state->write_all(header.data(), header.size()));
  state->remaining = data_bytes(tensors);
  return ShardWriter(std::move(state));
}

Status ShardWriter::append(std::span<const std::byte> bytes) {
  state_->remaining -= static_cast<int64_t>(bytes.size());
  QUIRE_CHECK(state_->remaining >= 0, "{}: more bytes than its header says", state_->path);
  return state_->write_all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status ShardWriter::finish() {
  QUIRE_CHECK(state_->remaining == 0, "{}: {} bytes are missing", state_->path, state_->remaining);
  if (::fsync(state_->fd) != 0) return system_error("cannot write", state_->partial());
  if (std::rename(state_->partial().c_str(), state_->path.c_str()) != 0) {
    return system_error("cannot rename", state_->partial());
  }
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) return system_error("cannot write", partial);
  if (std::rename(partial.c_str(), path.c_str()) != 0) return system_error("cannot rename", path);
  return {};
}

}  // namespace quire
