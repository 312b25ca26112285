// Translates llama.cpp's files of towers and projectors ("mmproj-….gguf"), whose language model is
// in another GGUF file, to the keys of config.json.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "models/vision/vision_spec.h"
#include "weights/files/tensor_source.h"
#include "weights/gguf/gguf.h"

namespace quire {

struct MmprojConfig {
  boost::json::object config;        // as config.json
  boost::json::object preprocessor;  // as preprocessor_config.json
  int64_t width = 0;                 // of the embeddings
};

// Checks what the translation needs; the readers of towers check everything else. `model` is the
// file of the language model, whose width and vocabulary must fit. kUnimplemented: the projector is
// of another kind.
Result<MmprojConfig> translate_mmproj(const GgufFile& mmproj, const GgufFile& model);

// Replaces the tensor names and weight layouts of transformers' checkpoints in `vision` by those of
// the file. `vision` was read from the result of translate_mmproj().
void use_mmproj_layout(const GgufFile& mmproj, VisionSpec& vision);

// Tensors, and the memory of those that lie in no file.
struct TowerTensors {
  TensorSource source{std::vector<RawTensor>()};
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

// Returns the file's tensors. A weight that the file splits by the frames of a film is joined to
// one.
Result<TowerTensors> mmproj_tensors(const GgufFile& mmproj);

}  // namespace quire
