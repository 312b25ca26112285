// QuantizedCopy: the served model again, with weights of 4 bits. As a drafter it is often right,
// and it reads about a third of the bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "weights/files/model_files.h"

namespace quire {

// The format's name for `quire quantize --to` and --shape-weights.
inline constexpr const char* kCopyWeights = "int4-g32";

// The copy's files are in a temporary folder that is removed with this object; only loading reads
// them.
class QuantizedCopy {
 public:
  // Makes the copy. kInvalidArgument: the files are GGUF, the weights are quantized already, or
  // none of them can be.
  static Result<QuantizedCopy> make(const ModelFiles& files, const ThreadTeamOptions& threads);

  QuantizedCopy(QuantizedCopy&& other) noexcept
      : folder_(std::move(other.folder_)), files_(std::move(other.files_)) {
    other.folder_.clear();
  }
  QuantizedCopy& operator=(QuantizedCopy&&) = delete;
  ~QuantizedCopy();

  std::shared_ptr<const ModelFiles> files() const { return files_; }

 private:
  explicit QuantizedCopy(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;  // empty: moved to another object
  std::shared_ptr<const ModelFiles> files_;
};

}  // namespace quire
