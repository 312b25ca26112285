// CanvasFront computes the input rows of a tower that reads a canvas of tiles (CanvasSpec), and the
// embeddings that are added after the tower's first layers.
#pragma once

#include <cstdint>
#include <vector>

#include "device/stream.h"
#include "exec/media/patch_rows.h"
#include "models/vision/vision_spec.h"
#include "nn/decoder/decoder.h"
#include "nn/weights/weight_slots.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// A picture that fills a canvas of `grid` tiles.
struct Canvas {
  PicturePixels picture;
  TileGrid grid;
  size_t id = 0;  // of the grid, 1 + its index in VisionSpec::grids
};

// One thread at a time may use it. Borrows spec and stream.
class CanvasFront {
 public:
  CanvasFront(const VisionSpec& spec, const WeightOptions& options, HostStream& stream);

  Status open(const TensorSource& source, WeightPacking& packing);
  int64_t weight_bytes() const { return plan_.arena_bytes(); }
  int64_t arena_bytes() const;
  // `decoder` computes the rows of patches and stores the class token; `weights` are its weights.
  Status load(const LoadOptions& options, const DecoderWeights& weights, Decoder& decoder,
              Arena& arena);

  // tile_rows() returns the rows of one tile; num_rows() those of all tiles, padding included.
  int32_t tile_rows() const { return spec_.max_rows(); }
  int32_t num_rows() const;
  // Writes to rows [num_rows, E], tile by tile, the rows of the class token and of the patches, and
  // then the padding, which is zeros.
  void embed(const Canvas& canvas, float* rows);
  // Adds each tile's own embedding to its rows, after the first layers. `rows` [num_rows, E] has
  // the order of embed().
  void add_behind(const Canvas& canvas, float* rows);

 private:
  // Reads a row of a table as float32.
  void read_row(const TableWeight& table, size_t row, int64_t size, float* out);
  void embed_tile(const Canvas& canvas, int32_t tile, float* rows);

  const VisionSpec& spec_;
  HostStream& stream_;
  WeightSlots slots_;
  TableWeight positions_, tile_positions_, before_, behind_;
  const float* position_gate_ = nullptr;
  const float* before_gate_ = nullptr;
  const float* behind_gate_ = nullptr;
  NormWeights norm_;
  LoadPlan plan_;
  Arena weight_arena_;
  Decoder* decoder_ = nullptr;
  float* patches_ = nullptr;        // [kMaxPooledRows, elements of a patch]
  float* class_row_ = nullptr;      // [E]
  float* all_positions_ = nullptr;  // [tile_rows, E]
  float* of_tiles_ = nullptr;       // [tiles, tile_rows, E], of the current canvas
  float* before_rows_ = nullptr;    // [tiles, E]
  float* behind_rows_ = nullptr;    // [tiles, E]
};

}  // namespace quire
