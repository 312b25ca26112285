// read_model_shape() reads a model's sizes from whatever describes it, for roofline, simulate and
// plan.
#pragma once

#include <string>

#include "base/result.h"
#include "exec/model_plan.h"
#include "models/vision/vision_spec.h"
#include "roofline/shape/model_shape.h"

namespace quire {

// `path` is a folder with a config.json, the file itself, a .gguf file (its metadata, and the types
// of its tensors), a step log (the model with the formats that it was served in), or nothing for
// the built-in model. The shape is named after the folder or file; a step log names its model.
// Weights are not read. The error names the file.
Result<ModelShape> read_model_shape(const std::string& path);

// Adds the layers of `spec` to the groups of `shape`, equal layers together.
void add_layer_shapes(const DecoderSpec& spec, ModelShape& shape);

// What reads pictures for a model whose tokens their embeddings are.
TowerShape tower_shape(const VisionSpec& vision);

// What the layers of `decoder` look at, and the layers of the encoder that makes it.
SourceShape source_shape(const DecoderSpec& decoder, const DecoderSpec& encoder);

}  // namespace quire
