// PipelineStage says which layers of a model one stage of a pipeline computes. Hidden states go
// from stage to stage; the first stage looks up the embedding, the last one computes the head. No
// sum is split between stages, so the bits are those of one stage (law L4;
// docs/decisions/039-pipeline.md).
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

// Returns the layers of a stage of the whole model: at least one. The stages are cut such that the
// largest one has as few parameters as possible. The head counts as the last stage's: in small
// models with many tokens it is as large as several layers. Layers that read the keys and values of
// others are put on the same stage as these where possible.
RowRange layers_of(const DecoderSpec& whole, const PipelineStage& stage);

// kInvalidArgument, kUnimplemented: the model cannot be divided into so many stages.
Status check_stages(const DecoderSpec& whole, int32_t num_stages);

// Returns the model as one stage sees it: the layers of other stages keep their indices and compute
// nothing. Only the first stage has the token embedding (WeightOptions::has_embedding).
DecoderSpec stage_of(const DecoderSpec& whole, const PipelineStage& stage);

}  // namespace quire
