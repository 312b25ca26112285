// Divides a model's layers among the stages of a pipeline, in the same way as
// exec/stages/pipeline_stage.h: the head counts as layers of the last stage.
#pragma once

#include <cstdint>

#include "roofline/shape/model_shape.h"

namespace quire {

struct PipelineLayers {
  int64_t before_last = 0;  // the most layers of a stage before the last one
  int64_t last = 0;

  int64_t most() const { return before_last > last ? before_last : last; }
};

// Divides the layers among 1 to model.num_layers() stages.
PipelineLayers deal_layers(const ModelShape& model, int32_t num_stages);

}  // namespace quire
