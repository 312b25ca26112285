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
  // header is read and checked here; tensor bytes are not touched. kNotFound: there are no weights,
  // or a shard is missing. kDataLoss: a file lies.
  static Result<TensorSource> open(const ModelFiles& files);

  // Of tensors that whoever reads files has made of others. Names must be different.
  explicit TensorSource(std::vector<RawTensor> tensors);

  // Returns nullptr where it is absent. The tensor is valid as long as the source.
  const RawTensor* find(std::string_view name) const;

  // As find(), with an error that names the tensor: kNotFound.
  Result<const RawTensor*> require(std::string_view name) const;

  // Returns them sorted by name.
  const std::vector<RawTensor>& tensors() const { return tensors_; }
  std::vector<std::string> names() const;
  int64_t total_bytes() const;

 private:
  std::vector<RawTensor> tensors_;
};

}  // namespace quire
