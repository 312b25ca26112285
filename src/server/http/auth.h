// Bearer keys: kept and compared as SHA-256 digests, in constant time.
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
  // Returns whether a request may pass, which is true when no key is required. `authorization` is
  // the header's value, if the request had one.
  bool allows(std::optional<std::string_view> authorization) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest digest_of(std::string_view text);
  std::vector<Digest> digests_;
};

// Returns 128 random bits of the operating system's generator as 32 hex digits.
std::string random_id();
// Returns the key that a request brings, as a bearer's or alone, or an empty string.
std::string_view key_of(const HttpRequest& request);
// Who keeps what a request leaves with the server: the digest of its key; empty: it has none.
std::string owner_of(const HttpRequest& request);
// What may be kept of a key, to know it again.
std::string key_digest(std::string_view key);

}  // namespace quire::server
