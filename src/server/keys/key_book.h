// KeyBook holds the keys of a key file while the server runs: which account a key belongs to, what
// its limits are, and how much it has used.
//
//   QUIRE_ASSIGN_OR_RETURN(auto book, KeyBook::open(path, false, now_us));
//   if (const auto account = book->find(key)) {
//     HeaderList headers;
//     auto use = account->enter(now_us, headers);  // 429, or held while the request runs
//     use.value()->charge(KeyUse::kPrompt, 12, now_us);
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "server/http/api_error.h"
#include "server/http/http_types.h"
#include "server/keys/key_file.h"
#include "server/keys/rate_limit.h"

namespace quire::server {

class KeyUse;

// Any thread may call these methods.
class KeyAccount : public std::enable_shared_from_this<KeyAccount> {
 public:
  KeyAccount(KeySpec spec, int64_t now_us);

  // Counts a new request, or refuses it with 429. The x-ratelimit-* headers are appended to
  // `headers` in either case.
  ApiResult<std::shared_ptr<KeyUse>> enter(int64_t now_us, HeaderList& headers);
  std::optional<int32_t> priority() const;
  void set(KeySpec spec, int64_t now_us);

  struct Counts {
    std::string name;
    uint64_t requests = 0, prompt_tokens = 0, output_tokens = 0;
    uint64_t refused[3] = {};  // number of refusals by KeyLimit
    int64_t running = 0;
  };
  Counts counts() const;

 private:
  friend class KeyUse;
  mutable std::mutex mutex_;
  KeySpec spec_;
  KeyLimiter limiter_;
  Counts counts_;
};

// KeyUse is one running request of an account; its destructor ends the use.
class KeyUse {
 public:
  enum Kind : uint8_t { kPrompt, kOutput };
  explicit KeyUse(std::shared_ptr<KeyAccount> account) : account_(std::move(account)) {}
  ~KeyUse();
  KeyUse(const KeyUse&) = delete;
  KeyUse& operator=(const KeyUse&) = delete;
  void charge(Kind kind, int64_t num_tokens, int64_t now_us);

 private:
  const std::shared_ptr<KeyAccount> account_;
};

// Any thread may call these methods.
class KeyBook {
 public:
  // When `has_priorities` is false, because the scheduler uses none, no key may have a priority.
  static Result<std::unique_ptr<KeyBook>> open(const std::string& path, bool has_priorities,
                                               int64_t now_us);
  // Reads the file again. Keys with the same name keep their usage. After an error the old keys
  // stay in use.
  Status reload(int64_t now_us);
  // Returns null when the file does not have this key.
  std::shared_ptr<KeyAccount> find(std::string_view key) const;
  // Returns the counts of all keys in the file, by name.
  std::vector<KeyAccount::Counts> counts() const;
  // Returns Prometheus text with one series per key in the file.
  std::string metrics_text() const;

 private:
  KeyBook(std::string path, bool has_priorities)
      : path_(std::move(path)), has_priorities_(has_priorities) {}

  const std::string path_;
  const bool has_priorities_;
  mutable std::mutex mutex_;
  // Keys are looked up by their digests, so that the time of a lookup tells a client nothing about
  // the keys.
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> by_digest_;
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> by_name_;
};

// Returns texts such as "250ms", "1.5s" or "2m30s".
std::string duration_text(int64_t us);

}  // namespace quire::server
