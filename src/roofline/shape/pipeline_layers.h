// How many of a model's layers the stages of a pipeline have, as exec/stages/pipeline_stage.h deals them out:
// the head counts as the last stage's.
#pragma once

#include <cstdint>

#include "roofline/shape/model_shape.h"

namespace quire {

struct PipelineLayers {
  int64_t before_last = 0;  // the most that a stage before the last one has
  int64_t last = 0;

  int64_t most() const { return before_last > last ? before_last : last; }
};

// Deals the layers to 1 to model.num_layers() stages.
PipelineLayers deal_layers(const ModelShape& model, int32_t num_stages);

}  // namespace quire
