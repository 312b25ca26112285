// A RankShare says which part of a model one rank computes, when several ranks compute it together.
//
// A matrix is cut along its outputs and never along its inputs: a rank computes some outputs, each
// from all inputs and in the same order as a single rank. So no sum is cut, and ids and logprobs
// are the same bits for every number of ranks (law L4; docs/decisions/035-ranks.md). Attention is
// cut by heads, which are independent of each other. Experts may instead be spread whole (expert
// parallel): their outputs are combined, all of them on every rank or some columns on each, and
// summed in the order in which a token chose them. Between two cut products, the ranks exchange
// their outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "nn/decoder_spec.h"
#include "nn/spec/rank_share_spec.h"
#include "weights/checkpoint.h"

namespace quire {

// The heads of a layer that a rank computes.
struct HeadShare {
  RowRange heads;
  RowRange kv_heads;

  // Return the rows of the heads' elements, one head after the other.
  RowRange q_rows(const AttentionSpec& whole) const;
  RowRange k_rows(const AttentionSpec& whole) const;
  // Returns the rows of the input projection: queries, keys, values and the gate.
  std::vector<RowRange> qkv_rows(const AttentionSpec& whole) const;
};

// Returns whether each rank computes some heads. Otherwise each rank computes the layer's whole
// attention: its norms span all heads, or all heads share a latent, or the layer has no attention.
bool cuts_heads(const AttentionSpec& attention, const RankShare& share);
HeadShare share_of(const AttentionSpec& attention, const RankShare& share);

// kInvalidArgument: the model cannot be divided among so many ranks.
Status check_ranks(const DecoderSpec& whole, const RankShare& share);

// Returns the model as one rank sees it, with only its own heads and columns of MLPs.
DecoderSpec share_of(const DecoderSpec& whole, const RankShare& share);

}  // namespace quire
