// A TensorSource has all tensors of a checkpoint by name, whatever files they lie in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/files/model_files.h"
#include "weights/tensors/raw_tensor.h"

namespace quire {

// Borrows the mappings of the ModelFiles it was opened on, which must outlive it. It is immutable,
// and any thread may read it.
class TensorSource {
 public:
  // Opens model.safetensors, or the shards of model.safetensors.index.json, or the GGUF file. Every
  // header is read and checked here; tensor bytes are not touched. Returns kNotFound if there are
  // no weights or a shard is missing, kDataLoss if a header is malformed.
  static Result<TensorSource> open(const ModelFiles& files);

  // Takes tensors that the caller has made from those of other sources. Their names must be
  // different.
  explicit TensorSource(std::vector<RawTensor> tensors);

  // Returns the tensor, valid as long as the source, or nullptr if it is absent.
  const RawTensor* find(std::string_view name) const;

  // Returns the tensor, or kNotFound with a message that names it.
  Result<const RawTensor*> require(std::string_view name) const;

  // Returns all tensors, sorted by name.
  const std::vector<RawTensor>& tensors() const { return tensors_; }
  std::vector<std::string> names() const;
  int64_t total_bytes() const;

 private:
  std::vector<RawTensor> tensors_;
};

}  // namespace quire
