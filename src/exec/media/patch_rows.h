// PatchRows computes the rows that a vision tower's encoder reads.
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

// Writes one normalized patch: [3, frames, patch, patch], or [patch, patch, 3] with
// VisionSpec::channels_last.
void cut_patch(const VisionSpec& spec, const PicturePixels& picture, const PatchPlace& place,
               float* out);

// Borrows its arguments. One thread at a time may use it.
class PatchRows {
 public:
  // Called once the weights are loaded; reads the table of positions.
  PatchRows(const VisionSpec& spec, const DecoderWeights& weights, Decoder& decoder, Stream& stream,
            Arena& arena);
  static int64_t arena_bytes(const VisionSpec& spec);

  // Writes to rows [num_rows, E] the class token's row, if there is one, and then those of the
  // patches in their order, positions included.
  void embed(const PicturePixels& picture, const PictureGrid& grid, float* rows);

 private:
  // Reads the first `num_rows` rows of a table, or those that ids_ lists.
  void read_table(const TableWeight& table, int64_t num_rows, float* out);
  void read_rows(const TableWeight& table, float* out) const;
  void cut(const PicturePixels& picture, const PictureGrid& grid, int64_t first, int64_t count);
  void add_positions(const PictureGrid& grid, float* rows);
  void add_per_axis(const PictureGrid& grid, float* rows);
  void add_resampled(const PictureGrid& grid, const PatchPlace& place, float* row) const;

  const VisionSpec& spec_;
  const TableWeight& table_;  // of positions
  Decoder& decoder_;
  Stream& stream_;
  float* patches_;    // [kMaxPooledRows, elements of a patch]
  float* class_row_;  // [E]
  float*
      positions_;  // [num_positions, E], or [2 * kMaxPooledRows, E] with PatchPositions::kPerAxis
  std::vector<int32_t> ids_;
  int64_t table_side_ = 0;
};

}  // namespace quire
