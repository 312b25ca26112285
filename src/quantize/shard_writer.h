// ShardWriter writes a safetensors file piece by piece; the file gets its name only when it is
// complete.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "quantize/scheme.h"

namespace quire {

// Returns whether the file holds exactly these tensors, as ShardWriter would have written them.
bool is_whole_shard(const std::string& path, const std::vector<WriteTensor>& tensors);

class ShardWriter {
 public:
  // Writes to PATH.partial. kInternal: a system call fails.
  static Result<ShardWriter> create(std::string path, const std::vector<WriteTensor>& tensors);
  ShardWriter(ShardWriter&&) noexcept;
  ShardWriter& operator=(ShardWriter&&) noexcept;
  ~ShardWriter();  // leaves an unfinished PATH.partial, which the next run overwrites

  // Appends the bytes of the tensors, in their order.
  Status append(std::span<const std::byte> bytes);
  // Makes the file durable, then renames it to PATH.
  Status finish();

 private:
  struct State;
  explicit ShardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Writes a small file, whole or not at all.
Status write_file(const std::string& path, std::string_view text);

}  // namespace quire
