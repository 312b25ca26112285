// QuantizedCopy is the served model once more with weights of 4 bits: a drafter that is often right and
// reads a good third of the bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "weights/files/model_files.h"

namespace quire {

// As `quire quantize --to` and --shape-weights name it.
inline constexpr const char* kCopyWeights = "int4-g32";

// The copy's files lie in a temporary folder that goes with this object: loading alone reads them.
class QuantizedCopy {
 public:
  // kInvalidArgument: the files are GGUF, the weights are quantized already, or none of them can
  // be.
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

  std::filesystem::path folder_;  // empty: another has it
  std::shared_ptr<const ModelFiles> files_;
};

}  // namespace quire
