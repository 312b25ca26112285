#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text_fields.h"
#include "fetch/origin.h"

namespace quire::fetch {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

class LocalOrigin final : public Origin {
 public:
  LocalOrigin(std::string folder, std::function<bool()> is_stopped)
      : folder_(std::move(folder)), is_stopped_(std::move(is_stopped)) {}

  std::string place_of(const std::string& name) const override { return folder_ + "/" + name; }

  std::optional<uint64_t> size_of(const std::string& name) override {
    struct stat info {};
    const bool is_file = lstat(place_of(name).c_str(), &info) == 0 && S_ISREG(info.st_mode);
    return is_file ? std::optional(static_cast<uint64_t>(info.st_size)) : std::nullopt;
  }

  Status fetch(const std::string& name, PartialFile& part) override {
    const std::string path = place_of(name);
    const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP)
      return invalid_argument("{}: expected a file, got a symbolic link, which is not followed",
                              path);
    if (fd < 0) return not_found("{}: {}", path, std::strerror(errno));
    Status status = part.begin({});  // the whole file is copied again
    if (status.ok()) status = copy(fd, path, part);
    close(fd);
    return status;
  }

  Result<std::string> text(const std::string& name, size_t max_bytes) override {
    return read_text(place_of(name), max_bytes);
  }

 private:
  Status copy(int fd, const std::string& path, PartialFile& part) const {
    struct stat info {};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
      return invalid_argument("{}: expected a file, got something else", path);
    std::vector<char> piece(kPieceBytes);
    while (true) {
      if (is_stopped_ && is_stopped_()) return cancelled("stopped");
      const ssize_t n = read(fd, piece.data(), piece.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return unavailable("{}: {}", path, std::strerror(errno));
      if (n == 0) return {};
      QUIRE_RETURN_IF_ERROR(part.append({piece.data(), static_cast<size_t>(n)}));
    }
  }

  const std::string folder_;
  const std::function<bool()> is_stopped_;
};

}  // namespace

std::unique_ptr<Origin> local_origin(std::string folder, std::function<bool()> is_stopped) {
  return std::make_unique<LocalOrigin>(std::move(folder), std::move(is_stopped));
}

}  // namespace quire::fetch
