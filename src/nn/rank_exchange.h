// RankExchange combines what the ranks of a group have computed of a layer. It has buffers in the
// memory of the group; each holds one matrix for all ranks, and each rank fills in some columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/rank_group.h"
#include "device/stream.h"
#include "kernels/api/experts.h"
#include "nn/decoder_buffers.h"
#include "nn/rank_share.h"
#include "tensor/activations.h"

namespace quire {

// Borrows its arguments. One thread at a time may use it. Every rank calls the same methods in the
// same order. Once the group is broken they return at once, and their results are undefined.
class RankExchange {
 public:
  // Returns the group memory that it needs for steps within `limits`.
  static int64_t shared_bytes(const DecoderSpec& whole, const RankShare& share,
                              const DecoderLimits& limits);

  RankExchange(const DecoderSpec& whole, const RankShare& share, const DecoderLimits& limits,
               RankGroup& group, Stream& stream);

  const RankShare& share() const { return share_; }
  int64_t hidden_size() const { return whole_.hidden_size; }  // E
  bool cuts_heads(size_t layer) const {
    return quire::cuts_heads(whole_.layers[layer].attention, share_);
  }

  // Called before the first exchange of a forward pass. On GPUs the ranks meet here and start with
  // the same buffers in every pass, so that a captured pass may follow any other.
  void begin_pass();

  // Copies this rank's head outputs [T, own heads * D] to their columns in those of all heads [T,
  // Hq * D], and returns the latter.
  ConstActivations gather_heads(size_t layer, ConstActivations own, int64_t num_tokens);

  // Returns where this rank's columns of the inside of a layer's MLP lie, so that a kernel can
  // write them there. Rows are inside_stride() apart.
  Activations own_inside(size_t layer) const;
  int64_t inside_stride(size_t layer) const;
  // Copies them there from a buffer of the rank's own.
  void put_inside(size_t layer, ConstActivations own, int64_t num_tokens);
  // Returns the inside of all ranks, [T, F].
  ConstActivations gather_inside(size_t layer, int64_t num_tokens);

  // Returns the exchange for run_experts() of the layer, whose `out` is this rank's columns of a
  // matrix [T, E].
  ExpertsExchange experts(size_t layer, int64_t num_tokens);

  // The same for experts that are spread; `out` is then the whole matrix, in the rank's own memory.
  // If combines_columns(), only this rank's columns of it are summed, and gather_outputs() must
  // follow. On a GPU, `expert_ids` [T, k] say which rank has a row.
  ExpertsSpread spread_experts(size_t layer, int64_t num_tokens, const int32_t* expert_ids);
  bool combines_columns(size_t layer) const;

  // Completes x [T, E], of which each rank has computed its columns (RankShare::outputs()).
  void gather_outputs(Activations x, int64_t num_tokens);

  // Returns the least of the numbers, 0 to 255, that the ranks pass.
  uint8_t least_of_all(uint8_t mine);

  // Returns the logits of all ranks, [max_logit_rows, V].
  float* logits() const { return reinterpret_cast<float*>(logits_); }
  // Returns where this rank's columns of the logits begin, once no rank reads the previous ones any
  // more.
  float* begin_logits();
  // On ranks that read the logits, returns when all columns are complete.
  void gather_logits(int64_t num_rows);
  // Returns whether this rank samples. On CPUs only the first rank does, and it sends the tokens to
  // the others. On GPUs all ranks sample the same tokens, which stay where the next step reads
  // them.
  bool reads_logits() const { return is_on_gpu_ || share_.rank == 0; }

 private:
  struct Places;
  // Sets columns_, in bytes, from own(rank), which returns a rank's columns in elements.
  template <typename Own>
  void cut_columns(int64_t element_bytes, const Own& own);
  // Gathers the columns of the matrix at `at` in the group's memory.
  template <typename Own>
  void gather(const std::byte* at, int64_t num_columns, int64_t element_bytes, int64_t num_rows,
              bool first_only, const Own& own);
  void gather_experts();
  void combine_expert_rows(std::span<const int32_t> first_row);
  void combine_expert_rows_on_gpu();
  // Copies columns of a matrix to another one of the same type; strides and `width` are in
  // elements.
  struct CopiedColumns {
    ConstActivations from;
    int64_t from_stride = 0;
    Activations to;
    int64_t to_stride = 0;
    int64_t width = 0;
  };
  void copy_columns(const CopiedColumns& columns, int64_t num_rows);

  const DecoderSpec& whole_;
  RankShare share_;
  RankGroup& group_;
  Stream& stream_;
  bool is_on_gpu_;
  DType type_;
  std::byte* heads_;   // [T, widest Hq * D]
  std::byte* inside_;  // [mlp_tokens, widest F]
  // Of experts, as floats: [mlp_tokens * k, widest I], or, if experts are spread, their outputs
  // [mlp_tokens * k, E] in two buffers that are used in turn.
  std::byte* experts_[2];
  std::byte* outputs_[2];  // [T, E], used in turn, because a slow rank may still read the last one
  int turn_ = 0;
  int experts_turn_ = 0;
  std::vector<ByteColumns> columns_;  // of the current matrix, by rank
  // The layer of the current run_experts(), its tokens and experts.
  size_t experts_layer_ = 0;
  int64_t experts_tokens_ = 0;
  const int32_t* expert_ids_ = nullptr;
  std::vector<MatrixRows> rows_;  // rows of the current matrix, by rank
  std::byte* logits_;             // [max_logit_rows, V]
  std::byte* numbers_;            // [ranks], for least_of_all()
};

}  // namespace quire
