// Of models with an encoder for texts: a request's prompt is what the encoder reads.
#pragma once

#include "base/result.h"
#include "core/media.h"
#include "engine/output/generation.h"

namespace quire {

// Makes the prompt of a request that brings no media its source, and what the model's answers begin with
// its prompt. kInvalidArgument: the encoder cannot read it, or the request asks for what only a prompt
// that the decoder reads has.
Status make_source_of_prompt(const TextSourceInfo& model, GenerationRequest& request);

}  // namespace quire
