// pull() copies a model from a folder or a server, checks every file against its SHA-256, and puts
// the model where `quire serve --models-dir` finds it. Until the model is complete, its parts are
// kept, so that an interrupted pull continues where it stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::fetch {

struct PullOptions {
  // A folder, a .gguf file, or the http, https or file URL of either. The URL of a folder ends with
  // /.
  std::string source;
  std::string sha256;          // of the file, or of a folder's kChecksumFile; empty: not known
  std::string checksums_file;  // replaces the folder's own; empty: use that one
  bool needs_checksum = true;  // for URLs; a path never needs one
  std::string directory = ".";
  std::string name;     // of the model; empty: the last part of the source
  std::string ca_file;  // PEM, trusted authorities; empty: the system's
  int max_redirects = 5;
  int max_retries = 5;
  int64_t connect_timeout_ms = 10'000;
  int64_t quiet_timeout_ms = 30'000;

  // These functions are called on the calling thread, and each may be empty. A `total_bytes` of 0
  // means that the total is not known.
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
  bool was_there = false;  // the model was there already, with these checksums
};

// kInvalidArgument: the options or the source are not valid. kNotFound: there is no such source.
// kDataLoss: a file did not match its checksum and was deleted. kUnavailable: the server failed.
// kResourceExhausted: the disk is full. kCancelled: is_stopped() returned true.
Result<PulledModel> pull(const PullOptions& options);

}  // namespace quire::fetch
