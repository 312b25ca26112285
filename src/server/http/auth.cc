#include "server/http/auth.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"

namespace quire::server {

ApiKeys::Digest ApiKeys::digest_of(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (!key.empty()) digests_.push_back(digest_of(key));
  }
}

bool ApiKeys::allows(std::optional<std::string_view> authorization) const {
  if (!required()) return true;
  if (!authorization) return false;
  const size_t space = authorization->find(' ');
  if (space == std::string_view::npos) return false;
  if (!equals_ignoring_case(authorization->substr(0, space), "bearer")) return false;
  std::string_view token = authorization->substr(space);
  while (!token.empty() && token.front() == ' ') token.remove_prefix(1);
  const Digest digest = digest_of(token);
  bool found = false;
  // Every key is compared, so that the time does not show which one matched.
  for (const Digest& known : digests_) {
    found |= CRYPTO_memcmp(digest.data(), known.data(), known.size()) == 0;
  }
  return found;
}

namespace {

std::string hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  QUIRE_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random numbers");
  return hex(bytes);
}

std::string_view key_of(const HttpRequest& request) {
  const auto header = request.header("Authorization");
  if (!header) return request.header("X-Api-Key").value_or("");
  return header->substr(std::min(header->find_last_of(' ') + 1, header->size()));
}

std::string owner_of(const HttpRequest& request) {
  const std::string_view key = key_of(request);
  return key.empty() ? std::string() : key_digest(key);
}

std::string key_digest(std::string_view key) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return hex(digest);
}

}  // namespace quire::server
