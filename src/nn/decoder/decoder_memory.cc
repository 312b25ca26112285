#include "nn/decoder/decoder_memory.h"

#include <algorithm>

#include "kernels/api/attention.h"
#include "nn/adapters/lora_batch.h"
#include "nn/decoder/experts_block.h"
#include "nn/decoder/index_block.h"
#include "nn/decoder/latent_block.h"
#include "nn/decoder/layer_inputs.h"
#include "nn/decoder/state_block.h"
#include "nn/drafting/draft_input.h"
#include "nn/products/product_inputs.h"
#include "nn/shared/shared_blocks.h"
#include "nn/streams/residual_streams.h"

namespace quire {

DecoderMemory decoder_memory(const DecoderSpec& spec, const DecoderWeights& weights,
                             const DecoderLimits& limits, const Stream& stream) {
  DecoderMemory memory;
  const int64_t mlp_tokens = std::min(limits.max_tokens, limits.mlp_tokens);
  const BlockLimits block_limits{limits.max_tokens, limits.activation_type};
  memory.activations = BufferSizes(spec, limits).bytes();
  if (spec.has_experts())
    memory.activations +=
        ExpertsBlock::memory_bytes(spec, weights, {mlp_tokens, limits.activation_type}, stream);
  memory.activations += StateBlock::memory_bytes(spec, block_limits);
  memory.activations += LayerInputs::memory_bytes(spec, block_limits);
  const BatchSizes batch = batch_sizes(spec, limits);
  memory.activations += SharedBlocks::memory_bytes(weights.shared(), batch);
  memory.activations += ResidualStreams::memory_bytes(spec.streams, batch);
  memory.activations += DraftInput::memory_bytes(spec.draft_input, batch);
  memory.activations += LoraBatch::memory_bytes(limits.lora, limits.max_tokens);
  if (spec.has_latents())
    memory.activations += LatentBlock::memory_bytes(spec, weights, block_limits, stream);
  if (spec.has_indexers()) memory.activations += IndexBlock::memory_bytes(spec, limits, stream);
  memory.linear_workspace =
      Arena::padded(weights.linear_workspace(stream, {.attention = limits.max_tokens,
                                                      .mlp = mlp_tokens,
                                                      .head = limits.max_logit_rows,
                                                      .pooled = DecoderLimits::kMaxPooledRows}));
  memory.attention_workspace =
      attention_workspace_bytes(spec, limits, stream) +
      static_cast<int64_t>(cut_kinds(spec).size()) *
          Arena::padded(paged_attention_cut_bytes(stream, limits.max_reqs));
  return memory;
}

Activations allocate_activations(Arena& arena, const DecoderLimits& limits, int64_t count) {
  return allocate_activations(arena, limits.activation_type, count);
}

}  // namespace quire
