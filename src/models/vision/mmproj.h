// Towers and projectors in files of llama.cpp ("mmproj-….gguf"), whose language model lies in another
// GGUF file: what they say, as config.json would say it.
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
  int64_t width = 0;                 // of embeddings
};

// Checks what translating needs; the readers of towers check the rest. `model` is the file of the
// language model, whose width and vocabulary must fit. kUnimplemented: a projector of another
// kind.
Result<MmprojConfig> translate_mmproj(const GgufFile& mmproj, const GgufFile& model);

// Sets how the file names its tensors and what its weights are made for, in place of what checkpoints
// of transformers have. `vision` was read from translate_mmproj().
void use_mmproj_layout(const GgufFile& mmproj, VisionSpec& vision);

// TowerTensors holds tensors, and the memory of those that lie in no file.
struct TowerTensors {
  TensorSource source{std::vector<RawTensor>()};
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

// Returns the file's tensors; a weight that it keeps apart for each frame of a film becomes one.
Result<TowerTensors> mmproj_tensors(const GgufFile& mmproj);

}  // namespace quire
