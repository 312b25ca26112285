// PatchRows: the rows that a tower's encoder begins with.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/media/picture_grid.h"
#include "models/vision/vision_spec.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

struct PicturePixels {
  const uint8_t* rgb = nullptr;
  int32_t width = 0;
};

// One thread at a time. Borrows all that it is made with.
class PatchRows {
 public:
  // With loaded weights; reads the table of positions.
  PatchRows(const VisionSpec& spec, const DecoderWeights& weights, Decoder& decoder, Stream& stream,
            Arena& arena);
  static int64_t arena_bytes(const VisionSpec& spec);

  // rows [num_rows, E]: the class token's, if there is one, and those of the patches in their order,
  // with positions.
  void embed(const PicturePixels& picture, const PictureGrid& grid, float* rows);

 private:
  void read_table(const TableWeight& table, int64_t num_rows, Stream& stream, float* out) const;
  void cut(const PicturePixels& picture, const PictureGrid& grid, int64_t first, int64_t count);
  void add_positions(const PictureGrid& grid, float* rows) const;
  void add_resampled(const PictureGrid& grid, const PatchPlace& place, float* row) const;

  const VisionSpec& spec_;
  Decoder& decoder_;
  float* patches_;    // [kMaxPooledRows, elements of a patch]
  float* class_row_;  // [E]
  float* positions_;  // [num_positions, E]
  int64_t table_side_ = 0;
};

}  // namespace quire
