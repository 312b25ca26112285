// VisionTower: from a picture to its embeddings, on the host. One picture at a time, whatever else
// the step encodes, so that its bits are its own (law L4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "core/media.h"
#include "device/stream.h"
#include "models/vision/vision_spec.h"
#include "nn/decoder.h"
#include "nn/decoder_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// One thread at a time.
class VisionTower {
 public:
  // Finds and checks the tower's tensors; reads none. Borrows stream and packing. `source` must
  // outlive load().
  static Result<std::unique_ptr<VisionTower>> open(const VisionSpec& spec,
                                                   const WeightOptions& options,
                                                   const TensorSource& source,
                                                   WeightPacking& packing, HostStream& stream);

  const VisionSpec& spec() const { return spec_; }
  int64_t weight_bytes() const { return plan_.arena_bytes(); }
  int64_t workspace_bytes() const;
  Status load(const LoadOptions& options);

  // out [num_embeddings, embedding_size()]. kInvalidArgument: the picture is of another size, or
  // what comes of it is no number.
  Status encode(const MediaItem& item, float* out);
  int64_t embedding_size() const { return spec_.encoder.pooling.layers.back().num_outputs; }

 private:
  VisionTower(const VisionSpec& spec, const WeightOptions& options, HostStream& stream);
  void place_buffers();
  std::vector<LayerCache> one_cache();
  void read_positions();
  void cut_patches(const MediaItem& item, int64_t first, int64_t count);
  void embed_patches(const MediaItem& item);
  void project(const float* hidden, float* out);

  const VisionSpec spec_;
  HostStream& stream_;
  DecoderWeights weights_;
  TensorSource source_;
  LoadPlan plan_;
  DecoderLimits limits_;
  Arena weight_arena_, workspace_;
  std::unique_ptr<Decoder> decoder_;
  float* patches_ = nullptr;    // [kMaxPooledRows, elements of a patch]
  float* rows_ = nullptr;       // [num_rows, E], what the encoder begins with
  float* positions_ = nullptr;  // [num_rows, E]
  float* projected_ = nullptr;  // [2, kMaxPooledRows, widest]
  std::vector<int32_t> ids_, block_table_;
  std::vector<int64_t> slots_;
};

}  // namespace quire
