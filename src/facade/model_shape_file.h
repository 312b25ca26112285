// read_model_shape() reads a model's sizes from any file that describes it, for roofline, simulate
// and plan.
#pragma once

#include <string>

#include "base/result.h"
#include "exec/model_plan.h"
#include "models/vision/vision_spec.h"
#include "roofline/shape/model_shape.h"

namespace quire {

// Reads a model's shape without its weights. `path` is a folder with a config.json, that file
// itself, a .gguf file (its metadata, and the types of its tensors), a step log (the model with the
// formats in which it was served), or empty for the built-in model. The shape is named after the
// folder or file; a step log has a model name. The error names the file.
Result<ModelShape> read_model_shape(const std::string& path);

// Adds the layers of `spec` to the groups of `shape`, equal layers together.
void add_layer_shapes(const DecoderSpec& spec, ModelShape& shape);

// Returns the shape of a vision tower whose embeddings stand for tokens of the model.
TowerShape tower_shape(const VisionSpec& vision);

// Returns the shape of the sources that the layers of `decoder` attend to, and of their encoder.
SourceShape source_shape(const DecoderSpec& decoder, const DecoderSpec& encoder);

}  // namespace quire
