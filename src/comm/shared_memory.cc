#include "comm/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>

namespace quire {
namespace {

// The mark follows the shared bytes.
using Mark = uint64_t;
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max() / 2;

bool has_mark(int fd, const SharedMemoryOffer& offer) {
  struct stat info {};
  Mark found = 0;
  return ::fstat(fd, &info) == 0 && info.st_size == offer.num_bytes + int64_t{sizeof(Mark)} &&
         ::pread(fd, &found, sizeof(found), offer.num_bytes) == ssize_t{sizeof(found)} &&
         found == offer.mark;
}

}  // namespace

Result<SharedMemory> SharedMemory::create(int64_t num_bytes) {
  SharedMemory memory;
  std::random_device random;
  memory.fd_ = ::memfd_create("quire", MFD_CLOEXEC);
  memory.offer_ = {.mark = (Mark{random()} << 32) | random(),
                   .num_bytes = num_bytes,
                   .process = ::getpid(),
                   .file_descriptor = memory.fd_};
  const Mark mark = memory.offer_.mark;
  if (memory.fd_ < 0 || ::ftruncate(memory.fd_, num_bytes + int64_t{sizeof(mark)}) != 0 ||
      ::pwrite(memory.fd_, &mark, sizeof(mark), num_bytes) != ssize_t{sizeof(mark)}) {
    return resource_exhausted("{} bytes of memory to share: {}", num_bytes, std::strerror(errno));
  }
  QUIRE_RETURN_IF_ERROR(memory.map());
  return memory;
}

Result<SharedMemory> SharedMemory::open(const SharedMemoryOffer& offer) {
  SharedMemory memory;
  memory.offer_ = offer;
  const bool is_sensible =
      offer.process > 0 && offer.num_bytes >= 0 && offer.num_bytes < kMostBytes;
  if (is_sensible) {
    const std::string path = fmt::format("/proc/{}/fd/{}", offer.process, offer.file_descriptor);
    memory.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  }
  if (memory.fd_ < 0 || !has_mark(memory.fd_, offer))
    return not_found("memory of process {}, which is not of this machine", offer.process);
  QUIRE_RETURN_IF_ERROR(memory.map());
  return memory;
}

Status SharedMemory::map() {
  if (offer_.num_bytes == 0) return {};
  void* const mapped = ::mmap(nullptr, static_cast<size_t>(offer_.num_bytes),
                              PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED)
    return resource_exhausted("{} bytes of memory to share: {}", offer_.num_bytes,
                              std::strerror(errno));
  data_ = static_cast<std::byte*>(mapped);
  return {};
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : offer_(std::exchange(other.offer_, {})),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  release();
  offer_ = std::exchange(other.offer_, {});
  fd_ = std::exchange(other.fd_, -1);
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

void SharedMemory::release() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(offer_.num_bytes));
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

}  // namespace quire
