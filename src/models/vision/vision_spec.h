// VisionSpec describes how a model computes the embeddings of an image, as plain data;
// exec/media/vision_tower.h computes them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "core/picture.h"
#include "nn/decoder_spec.h"
#include "weights/names/name_map.h"

namespace quire {

// How patches get their rows of the table of positions.
enum class PatchPositions : uint8_t {
  kNone,
  kRows,       // one row per patch, row by row, after that of the class token
  kResampled,  // the table is a square grid, interpolated linearly to the size of the picture
  kPerAxis,    // a row for each column, followed by as many for rows; the two are added
};

// The projector's input for a cell of patches.
enum class CellRows : uint8_t {
  kJoined,     // all of them, patch by patch
  kByChannel,  // all of them, channel by channel
  kAveraged,   // their mean
};

// CanvasSpec describes a tower that reads a canvas of tiles as one picture, and whose rows are the
// source of the language model's cross-attention instead of tokens (Llama 3.2 Vision). The rows of
// a tile are those of its class token and patches; the patches of tiles that the canvas does not
// have are zeros. Behind all tiles come rows of zeros, which pad each tile to a multiple of
// kRowMultiple. All rows attend to those of the canvas's own tiles, and to no others.
struct CanvasSpec {
  static constexpr int32_t kRowMultiple = 8;
  int32_t max_tiles = 0;  // 0: the tower has no canvas
  // The second encoder. It reads the output of VisionSpec::encoder after its last norm, and its
  // layers are gated.
  DecoderSpec global;
  NameMap global_names;
  NameMap front_names;  // of the embeddings that are added before the encoders and between them
  // Layers of the first encoder whose outputs the projector reads together with the second
  // encoder's output.
  std::vector<int32_t> layers;

  bool any() const { return max_tiles > 0; }
};

// A picture is cut into square patches. Each becomes a row of the encoder, whose rows all attend to
// each other. Then the patches of a cell, side by side, become one embedding as wide as those of
// the language model's tokens.
struct VisionSpec {
  // With a class token, vocab_size is 1, and the table of tokens has its embedding. The first of
  // pooling.layers computes rows from patches. It is followed by num_projector_layers that compute
  // embeddings from cells, and by as many for each of tap_layers.
  DecoderSpec encoder;
  NameMap names;
  // tensor_prefixes begin the names of the tower's tensors. The other two lists have the
  // checkpoint's names of the i-th of pooling.layers and of the norm of its input, which `names`
  // calls "dense.{i}" and "dense_norm.{i}".
  std::vector<std::string> tensor_prefixes;
  std::vector<std::string> dense_names;
  std::vector<std::string> dense_norm_names;

  int32_t image_size = 0;  // side of the picture in pixels; 0: any size that cells fill
  int32_t patch_size = 0;  // side of a patch in pixels
  int32_t merge_size = 1;  // patches on each side of a cell
  PictureFit fit = PictureFit::kMiddle;
  // Frames of a film that a patch spans; a picture repeats itself in all of them.
  int32_t num_frames = 1;
  // Patches are read pixel by pixel instead of channel by channel; then num_frames is 1.
  bool channels_last = false;
  int32_t max_cells = 0;   // of a picture, if image_size is 0; at most kMaxCells
  int32_t max_tokens = 0;  // of any picture; 0: no limit
  static constexpr int32_t kMaxCells = 2048;
  PatchPositions positions = PatchPositions::kNone;
  // The grids of tiles that a picture may be cut into. All tiles are in one item, with a line break
  // after each row of tiles; the last of pooling.layers, applied to 1, computes the line break.
  std::vector<TileGrid> grids;
  CanvasSpec canvas;  // any(): `grids` are then the possible canvases
  // Side of a window in cells; 0: all layers attend to the whole picture.
  int32_t window_cells = 0;
  std::vector<bool> layer_has_windows;  // per layer, if window_cells is set
  int32_t num_projector_layers = 2;
  CellRows cells = CellRows::kJoined;
  // Layers whose outputs give further embeddings for the language model's first layers: the i-th is
  // added to the output of its layer i.
  std::vector<int32_t> tap_layers;
  bool drops_class_token = true;    // before the projector
  bool is_bidirectional = false;    // the tokens of a picture attend to each other
  bool has_grid_positions = false;  // tokens have a row and a column (RopeSpec::pair_axes)
  // The encoder reads a channel's value x, 0 to 255, as (x - 255 mean) / (255 std). The defaults
  // are CLIP's.
  std::array<float, 3> mean = {0.48145466f, 0.4578275f, 0.40821073f};
  std::array<float, 3> std = {0.26862954f, 0.26130258f, 0.27577711f};
  bool centers_channels = false;  // the value above, v, becomes 2 v - 1
  TokenId placeholder = -1;       // the token of a prompt that an image replaces
  PictureText text;

  bool has_class_token() const { return encoder.vocab_size > 0; }
  int32_t cell_size() const { return patch_size * merge_size; }
  int32_t patches_per_cell() const { return merge_size * merge_size; }
  int32_t most_cells() const {
    const int32_t side = image_size / std::max(1, cell_size());
    return image_size > 0 ? side * side : max_cells;
  }
  // For a picture of `num_cells` cells; max_rows() is for the largest picture.
  int32_t num_rows(int32_t num_cells) const {
    return num_cells * patches_per_cell() + (has_class_token() ? 1 : 0);
  }
  int32_t num_embeddings(int32_t num_cells) const {
    return num_cells + (has_class_token() && !drops_class_token ? 1 : 0);
  }
  int32_t max_rows() const { return num_rows(most_cells()); }
  // With `canvas`: returns the rows of the language model's source, over all tiles.
  int32_t source_rows() const { return canvas.max_tiles * max_rows(); }
  int32_t tile_embeddings() const { return num_embeddings(most_cells()); }
  // Returns the most embeddings of a picture that is cut into such a grid.
  int32_t grid_embeddings(const TileGrid& grid) const {
    return tile_embeddings() * (1 + grid.size()) + grid.rows * (image_size / cell_size());
  }
  // Returns the most embeddings of an item; max_tiles() returns the most tiles, including the whole
  // picture.
  int32_t max_embeddings() const {
    int32_t most = tile_embeddings();
    for (const TileGrid& grid : grids) most = std::max(most, grid_embeddings(grid));
    return most;
  }
  int32_t max_tiles() const {
    int32_t most = 0;
    for (const TileGrid& grid : grids) most = std::max(most, grid.size());
    return most + 1;
  }
  // Returns the most windows of a picture of C cells: along each side, one more than fill it.
  int32_t max_windows() const {
    if (window_cells == 0) return 1;
    const int32_t cells = most_cells();
    return cells / (window_cells * window_cells) + (cells + 1) / window_cells + 1;
  }
  PictureShape shape() const {
    return {.fit = fit,
            .image_size = image_size,
            .num_embeddings = canvas.any() ? source_rows() : tile_embeddings(),
            .cell_size = cell_size(),
            .max_cells = max_cells,
            .max_tokens = max_tokens,
            .grids = grids};
  }
  int64_t patch_elements() const { return int64_t{3} * num_frames * patch_size * patch_size; }
  // embedding_width() is the number of elements of an embedding; embedding_size() adds those for
  // tap_layers.
  int64_t embedding_width() const { return encoder.pooling.layers.back().num_outputs; }
  int64_t embedding_size() const {
    return embedding_width() * (1 + static_cast<int64_t>(tap_layers.size()));
  }
};

}  // namespace quire
