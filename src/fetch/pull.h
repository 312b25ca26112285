// Gets a model from a folder or a server that somebody names, checks every file of it against its
// SHA-256, and puts it where `quire serve --models-dir` finds it. What has come is kept until all of
// it has, so that a pull that was cut off goes on where it was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::fetch {

struct PullOptions {
  // A folder, a .gguf file, or the http, https or file URL of either; that of a folder ends with /.
  std::string source;
  std::string sha256;          // of the file; of a folder's kChecksumFile; empty: not known
  std::string checksums_file;  // instead of the folder's own; empty: that one
  bool needs_checksum = true;  // of a URL; a path is taken without one
  std::string directory = ".";
  std::string name;     // of the model; empty: the source's last part
  std::string ca_file;  // PEM, authorities that are believed; empty: the system's
  int max_redirects = 5;
  int max_retries = 5;
  int64_t connect_timeout_ms = 10'000;
  int64_t quiet_timeout_ms = 30'000;

  // Told on the calling thread; each may be empty. `total_bytes` 0: it is not known.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> on_progress = {};
  std::function<void(const std::string& sentence)> on_note = {};
  std::function<bool()> is_stopped = {};
};

struct PulledFile {
  std::string name, sha256;
  uint64_t size_bytes = 0;
};

struct PulledModel {
  std::string name, path;
  std::vector<PulledFile> files;
  bool was_there = false;  // with these checksums, before
};

// kInvalidArgument: the options or the source are not as they should be; kNotFound: there is no such
// source; kDataLoss: a file is not the one of its checksum, and was deleted; kUnavailable: the server;
// kResourceExhausted: the disk; kCancelled: is_stopped().
Result<PulledModel> pull(const PullOptions& options);

}  // namespace quire::fetch
