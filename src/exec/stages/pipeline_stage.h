// PipelineStage says which layers of a model one stage of a pipeline computes. Hidden states go
// from stage to stage; the first one looks up the embedding, the last one has the head. No sum is
// cut, so the bits are those of one stage (law L4; docs/decisions/039-pipeline.md).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "nn/decoder_spec.h"
#include "weights/checkpoint.h"

namespace quire {

struct PipelineStage {
  int32_t index = 0;
  int32_t count = 1;

  bool is_first() const { return index == 0; }
  bool is_last() const { return index == count - 1; }
};

// Returns the layers of a stage of the whole model: at least one, and such runs that the stage with
// the most parameters has as few as can be. The head counts as the last stage's: on small models
// with many tokens it is as large as several layers. Layers that read the keys and values of others
// stay with these where that can be.
RowRange layers_of(const DecoderSpec& whole, const PipelineStage& stage);

// kInvalidArgument, kUnimplemented: so many stages cannot share such a model.
Status check_stages(const DecoderSpec& whole, int32_t num_stages);

// The model as one stage sees it: layers of others are there, with their numbers, and do nothing. The
// token embedding is the first stage's alone (WeightOptions::has_embedding).
DecoderSpec stage_of(const DecoderSpec& whole, const PipelineStage& stage);

}  // namespace quire
