// For models with an encoder for texts: a request's prompt is the text that the encoder reads.
#pragma once

#include "base/result.h"
#include "core/media.h"
#include "engine/output/generation.h"

namespace quire {

// For a request without media, makes its prompt the source, and replaces the prompt by the tokens
// with which the model's answers begin. kInvalidArgument: the encoder cannot read the prompt, or
// the request asks for something that needs a prompt which the decoder reads.
Status make_source_of_prompt(const TextSourceInfo& model, GenerationRequest& request);

}  // namespace quire
