// VisionTower computes the embeddings of a picture on the host. It computes each picture by itself,
// whatever else the step encodes, so that a picture's bits never depend on others (law L4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "core/media.h"
#include "device/stream.h"
#include "exec/media/patch_rows.h"
#include "exec/media/picture_grid.h"
#include "models/vision/mmproj.h"
#include "models/vision/vision_spec.h"
#include "nn/decoder/decoder.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// One thread at a time may use it.
class VisionTower {
 public:
  // Finds and checks the tower's tensors without reading any. Borrows stream and packing. The files
  // of `tensors` must outlive load().
  static Result<std::unique_ptr<VisionTower>> open(const VisionSpec& spec,
                                                   const WeightOptions& options,
                                                   TowerTensors tensors, WeightPacking& packing,
                                                   HostStream& stream);

  const VisionSpec& spec() const { return spec_; }
  int64_t weight_bytes() const { return plan_.arena_bytes(); }
  int64_t workspace_bytes() const;
  Status load(const LoadOptions& options);

  // Writes to out [num_embeddings, VisionSpec::embedding_size()]. kInvalidArgument: the picture has
  // another size, or an embedding is not finite.
  Status encode(const MediaItem& item, float* out);

 private:
  VisionTower(const VisionSpec& spec, const WeightOptions& options, HostStream& stream);
  void place_buffers();
  std::vector<LayerCache> layer_caches();
  Status check_size(const MediaItem& item) const;
  Status check_tiles(const MediaItem& item) const;
  void encode_picture(const PicturePixels& picture, int32_t height, float* out);
  void encode_tiles(const MediaItem& item, float* out);
  void cut_windows(const PictureGrid& grid);
  void run_layers(const PictureGrid& grid, float* out);
  // Projects the cells of `hidden` with projector `projector` (the last layer's or a tap's) into
  // `out`, from column `column` on.
  void project(const PictureGrid& grid, const float* hidden, size_t projector, float* out);
  const float* projector_input(size_t layer, const float* from, int64_t count);
  const float* cell_rows(const float* from, int64_t count);
  // Shifts and scales the columns of `count` rows of cells_ (InputNormSpec::shifts_input).
  void shift_cells(const PoolingLayerWeights& weights, int64_t size, int64_t count);

  const VisionSpec spec_;
  HostStream& stream_;
  DecoderWeights weights_;
  TowerTensors tensors_;
  LoadPlan plan_;
  DecoderLimits limits_;
  Arena weight_arena_, workspace_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<PatchRows> patch_rows_;
  float* rows_ = nullptr;        // [max_rows, E], inputs of the encoder
  float* cells_ = nullptr;       // [kMaxPooledRows, cell], inputs of a projector
  float* projected_ = nullptr;   // [2, kMaxPooledRows, widest]
  float* tiles_ = nullptr;       // [tiles, tile_embeddings, embedding_size], with VisionSpec::grids
  float* line_break_ = nullptr;  // [embedding_size]
  std::vector<float> ones_;      // the norm weights of a projector that stores none
  std::vector<int32_t> zeros_, sequence_, axis_positions_;
  // Keys lie in blocks; those of a window lie in blocks of their own.
  std::vector<int32_t> block_table_, window_table_, window_lens_;
  std::vector<int64_t> slots_, window_slots_;
};

}  // namespace quire
