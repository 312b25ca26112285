// RankExchange is where the ranks of a group put together what each has computed of a layer:
// buffers in the memory of the group, with one matrix for all ranks in each, whose columns each
// rank fills in part.
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

// Borrows what it is made of. One thread at a time may use it. Every rank calls the same methods in
// the same order. Once the group is broken they return at once, and what they leave is worthless.
class RankExchange {
 public:
  // Returns what it takes of the group's memory, for steps within `limits`.
  static int64_t shared_bytes(const DecoderSpec& whole, const RankShare& share,
                              const DecoderLimits& limits);

  RankExchange(const DecoderSpec& whole, const RankShare& share, const DecoderLimits& limits,
               RankGroup& group, Stream& stream);

  const RankShare& share() const { return share_; }
  int64_t hidden_size() const { return whole_.hidden_size; }  // E
  bool cuts_heads(size_t layer) const {
    return quire::cuts_heads(whole_.layers[layer].attention, share_);
  }

  // Comes before the first exchange of a forward pass. On GPUs the ranks meet and begin with the
  // same buffers each time, so that a pass that was captured may follow any other.
  void begin_pass();

  // Puts the heads' outputs of this rank [T, own heads * D] to their place among those of all [T,
  // Hq * D], which it returns.
  ConstActivations gather_heads(size_t layer, ConstActivations own, int64_t num_tokens);

  // This rank's columns of the inside of a layer's MLP, rows inside_stride() apart, for whoever
  // writes them there.
  Activations own_inside(size_t layer) const;
  int64_t inside_stride(size_t layer) const;
  // Takes them from a buffer of the rank's own instead.
  void put_inside(size_t layer, ConstActivations own, int64_t num_tokens);
  // Returns the inside of all ranks, [T, F].
  ConstActivations gather_inside(size_t layer, int64_t num_tokens);

  // For run_experts() of the layer, whose `out` is the rank's columns of a matrix [T, E].
  ExpertsExchange experts(size_t layer, int64_t num_tokens);

  // Returns the same where experts are spread; `out` is then the whole matrix, of the rank's own.
  // Where combines_columns(), only the rank's columns of it are summed, and gather_outputs() comes
  // next. On a GPU `expert_ids` [T, k] say whose a row is.
  ExpertsSpread spread_experts(size_t layer, int64_t num_tokens, const int32_t* expert_ids);
  bool combines_columns(size_t layer) const;

  // Each rank has computed its columns (RankShare::outputs()) of x [T, E]: the others' come in.
  void gather_outputs(Activations x, int64_t num_tokens);

  // Every rank says a number from 0 to 255: returns the least one.
  uint8_t least_of_all(uint8_t mine);

  // Returns [max_logit_rows, V], of all ranks.
  float* logits() const { return reinterpret_cast<float*>(logits_); }
  // Returns where this rank's columns of them begin, once nobody reads the last ones any more.
  float* begin_logits();
  // Returns when all of them are there, for ranks that read them.
  void gather_logits(int64_t num_rows);
  // Says whether this rank samples: on CPUs the first one alone does, and tells the others. GPUs
  // all do, each the same, so that their tokens stay where the next step reads them.
  bool reads_logits() const { return is_on_gpu_ || share_.rank == 0; }

 private:
  struct Places;
  // Sets the bytes of every rank's columns; own(rank) gives a rank's columns in elements.
  template <typename Own>
  void cut_columns(int64_t element_bytes, const Own& own);
  // Gathers a matrix at `at` in the group's memory.
  template <typename Own>
  void gather(const std::byte* at, int64_t num_columns, int64_t element_bytes, int64_t num_rows,
              bool first_only, const Own& own);
  void gather_experts();
  void combine_expert_rows(std::span<const int32_t> first_row);
  void combine_expert_rows_on_gpu();
  // Some columns of a matrix to another of the same type; strides and `width` are elements.
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
  // Of experts, floats: [mlp_tokens * k, widest I] of the inside; of spread ones [mlp_tokens * k, E] of
  // outputs, two that are taken in turns.
  std::byte* experts_[2];
  std::byte* outputs_[2];  // [T, E], taken in turns: a slow rank may still read the last one
  int turn_ = 0;
  int experts_turn_ = 0;
  std::vector<ByteColumns> columns_;  // of the matrix that is gathered, by rank
  size_t experts_layer_ = 0;          // that run_experts() is at, its tokens and their experts
  int64_t experts_tokens_ = 0;
  const int32_t* expert_ids_ = nullptr;
  std::vector<MatrixRows> rows_;  // likewise
  std::byte* logits_;             // [max_logit_rows, V]
  std::byte* numbers_;            // [ranks], of least_of_all()
};

}  // namespace quire
