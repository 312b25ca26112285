// A RankShare says which part of a model one rank computes, when several ranks compute it together.
//
// A matrix is cut along its outputs and never along its inputs: a rank computes some outputs, each
// from all inputs and in the order that one rank alone would take. So no sum is cut, and ids and
// logprobs are the same bits for every number of ranks (law L4; docs/decisions/035-ranks.md).
// Attention is cut by heads, which know nothing of each other. Experts may be spread whole instead
// (expert parallel): their outputs are put together, all of them on every rank or some columns on
// each, and summed in the order of a token's choice. Between two cut products the ranks put their
// outputs together.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "nn/decoder_spec.h"
#include "nn/spec/rank_share_spec.h"
#include "weights/checkpoint.h"

namespace quire {

// A rank computes these heads of a layer.
struct HeadShare {
  RowRange heads;
  RowRange kv_heads;

  // These return the rows of the heads' elements, one head after the other.
  RowRange q_rows(const AttentionSpec& whole) const;
  RowRange k_rows(const AttentionSpec& whole) const;
  // Returns the rows of the input projection: queries, keys, values and the gate.
  std::vector<RowRange> qkv_rows(const AttentionSpec& whole) const;
};

// Whether ranks take some heads each. Otherwise each of them computes the layer's attention: its
// norms reach over all heads, all heads share a latent, or there is none.
bool cuts_heads(const AttentionSpec& attention, const RankShare& share);
HeadShare share_of(const AttentionSpec& attention, const RankShare& share);

// kInvalidArgument: so many ranks cannot compute such a model together.
Status check_ranks(const DecoderSpec& whole, const RankShare& share);

// The model as one rank sees it: the heads and the insides of MLPs that are its own.
DecoderSpec share_of(const DecoderSpec& whole, const RankShare& share);

}  // namespace quire
