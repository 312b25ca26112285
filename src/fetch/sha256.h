// Sha256 computes the SHA-256 digest of bytes that are added piece by piece.
#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::fetch {

class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // Returns the digest of all bytes so far, as 64 lower-case hex digits. More bytes may be added
  // after it.
  std::string hex() const;

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

struct FileHash {
  std::string sha256;
  uint64_t size_bytes = 0;
};

// Returns the digest of a file. Links are not followed. kNotFound: there is no such file.
// kUnavailable: it cannot be read.
Result<FileHash> sha256_of_file(const std::string& path);

}  // namespace quire::fetch
