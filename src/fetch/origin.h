// Where the files of a model come from: a folder of this machine, or one of a server.
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
  // As errors name it.
  virtual std::string place_of(const std::string& name) const = 0;
  // nullopt: it is not told; fetch() will say why.
  virtual std::optional<uint64_t> size_of(const std::string& name) = 0;
  // Appends what `part` lacks of the file. kNotFound: there is no such file; kCancelled: the caller
  // wants to stop. What has come stays in `part` after any error.
  virtual Status fetch(const std::string& name, PartialFile& part) = 0;
  // A small file as a whole; kTooLarge: it is none.
  virtual Result<std::string> text(const std::string& name, size_t max_bytes) = 0;
};

// `is_stopped` ends waits and copies; empty: never.
std::unique_ptr<Origin> local_origin(std::string folder, std::function<bool()> is_stopped);

struct RemoteOptions {
  net::ExchangeOptions exchange;
  int max_redirects = 5;
  // How often a file is asked for again, without a byte more in between, after the network, or a
  // server that says that it has trouble.
  int max_retries = 5;
  int64_t retry_delay_ms = 500;  // before the first of them; doubled for each that follows
  // Told in a sentence why something is asked for again; empty: nobody wants to know.
  std::function<void(const std::string&)> on_retry = {};
  // Asked before a file of that size begins to be written; an error ends it. Empty: never.
  std::function<Status(uint64_t bytes)> check_room = {};
};

// `folder`: a path that ends with a slash; a query behind it goes with the path of every file.
std::unique_ptr<Origin> remote_origin(net::Url folder, RemoteOptions options);

}  // namespace quire::fetch
