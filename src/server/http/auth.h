// API keys are stored as SHA-256 digests and compared in constant time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace quire::server {

class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  bool required() const { return !digests_.empty(); }
  // Returns whether a request may pass; it always may when no key is required. `authorization` is
  // the value of the header, if the request has one.
  bool allows(std::optional<std::string_view> authorization) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest digest_of(std::string_view text);
  std::vector<Digest> digests_;
};

// Returns 128 random bits of the operating system's generator as 32 hex digits.
std::string random_id();
// Returns the key that a request carries, with or without "Bearer", or an empty string.
std::string_view key_of(const HttpRequest& request);
// Returns who owns what a request stores on the server: the digest of its key; empty: it has no
// key.
std::string owner_of(const HttpRequest& request);
// Returns the digest by which a key is recognized; it may be stored.
std::string key_digest(std::string_view key);

}  // namespace quire::server
