// The keys of a file while the server runs: whose a request is, what it may still ask, and what each
// has used.
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

// Any thread may call it.
class KeyAccount : public std::enable_shared_from_this<KeyAccount> {
 public:
  KeyAccount(KeySpec spec, int64_t now_us);

  // x-ratelimit-* go to `headers`, whatever comes of it.
  ApiResult<std::shared_ptr<KeyUse>> enter(int64_t now_us, HeaderList& headers);
  std::optional<int32_t> priority() const;
  void set(KeySpec spec, int64_t now_us);

  struct Counts {
    std::string name;
    uint64_t requests = 0, prompt_tokens = 0, output_tokens = 0;
    uint64_t refused[3] = {};  // by KeyLimit
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

// One request that runs.
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

// Any thread may call it.
class KeyBook {
 public:
  // Without `has_priorities` (of the server's scheduler) no key may have one.
  static Result<std::unique_ptr<KeyBook>> open(const std::string& path, bool has_priorities,
                                               int64_t now_us);
  // Reads the file again. Keys of the same name keep what they have used; on an error all stays.
  Status reload(int64_t now_us);
  // Null: nobody has this key.
  std::shared_ptr<KeyAccount> find(std::string_view key) const;
  // Of all keys of the file, by name.
  std::vector<KeyAccount::Counts> counts() const;
  // Prometheus text; one series per key of the file.
  std::string metrics_text() const;

 private:
  KeyBook(std::string path, bool has_priorities)
      : path_(std::move(path)), has_priorities_(has_priorities) {}

  const std::string path_;
  const bool has_priorities_;
  mutable std::mutex mutex_;
  // By digest: what a client can choose of it tells nothing by its time.
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> by_digest_;
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> by_name_;
};

// "250ms", "1.5s", "2m30s"
std::string duration_text(int64_t us);

}  // namespace quire::server
