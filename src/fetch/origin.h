// An Origin is where the files of a model come from: a folder of this machine or of a server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "fetch/partial_file.h"
#include "net/exchange.h"

namespace quire::fetch {

class Origin {
 public:
  virtual ~Origin() = default;
  // Returns the path or URL of a file, for errors.
  virtual std::string place_of(const std::string& name) const = 0;
  // Returns nullopt when the size is not known; fetch() will report the reason.
  virtual std::optional<uint64_t> size_of(const std::string& name) = 0;
  // Appends the bytes that `part` lacks. kNotFound: there is no such file. kCancelled: the caller
  // wants to stop. After any error `part` keeps the bytes that have come.
  virtual Status fetch(const std::string& name, PartialFile& part) = 0;
  // Returns a small file as a whole. kTooLarge: the file has more than `max_bytes`.
  virtual Result<std::string> text(const std::string& name, size_t max_bytes) = 0;
};

// When `is_stopped` returns true, waits and copies end. It may be empty.
std::unique_ptr<Origin> local_origin(std::string folder, std::function<bool()> is_stopped);

struct RemoteOptions {
  net::ExchangeOptions exchange;
  int max_redirects = 5;
  // How often a request is repeated after a failure of the network or of the server. The count
  // starts again whenever a new byte has come.
  int max_retries = 5;
  int64_t retry_delay_ms = 500;  // before the first repetition; doubled for each further one
  // Called with a sentence that says why a request is repeated. It may be empty.
  std::function<void(const std::string&)> on_retry = {};
  // Called with the number of bytes before a file is written. An error ends the transfer. It may be
  // empty.
  std::function<Status(uint64_t bytes)> check_room = {};
};

// The path of `folder` ends with a slash. A query after it is added to the path of every file.
std::unique_ptr<Origin> remote_origin(net::Url folder, RemoteOptions options);

}  // namespace quire::fetch
