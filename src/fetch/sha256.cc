#include "fetch/sha256.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace quire::fetch {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  QUIRE_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
              "SHA-256 is there");
}

void Sha256::add(std::string_view bytes) {
  QUIRE_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "SHA-256 goes on");
}

std::string Sha256::hex() const {
  Sha256 copy;  // computing a digest ends the state
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  QUIRE_CHECK(EVP_MD_CTX_copy_ex(copy.context_.get(), context_.get()) == 1 &&
                  EVP_DigestFinal_ex(copy.context_.get(), digest.data(), &size) == 1,
              "SHA-256 ends");
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

Result<FileHash> sha256_of_file(const std::string& path) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return not_found("{}: {}", path, std::strerror(errno));
  Sha256 hash;
  FileHash result;
  std::vector<char> piece(kPieceBytes);
  ssize_t n = 0;
  while ((n = read(fd, piece.data(), piece.size())) > 0 || (n < 0 && errno == EINTR)) {
    if (n < 0) continue;
    hash.add({piece.data(), static_cast<size_t>(n)});
    result.size_bytes += static_cast<uint64_t>(n);
  }
  const int failed = n < 0 ? errno : 0;
  close(fd);
  if (failed != 0) return unavailable("{}: {}", path, std::strerror(failed));
  result.sha256 = hash.hex();
  return result;
}

}  // namespace quire::fetch
