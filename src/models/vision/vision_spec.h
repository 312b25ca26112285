// What makes a model's embeddings of an image, as plain data: exec/media/vision_tower.h carries it
// out.
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

// How rows of the table of positions become those of patches.
enum class PatchPositions : uint8_t {
  kNone,
  kRows,       // one row for each patch, row by row, behind that of the class token
  kResampled,  // the table is a square grid, stretched over the picture's by linear interpolation
  kPerAxis,    // a row for each column, and behind as many for each row: the two are added
};

// What the projector reads of a cell's patches.
enum class CellRows : uint8_t {
  kJoined,     // all of them, patch by patch
  kByChannel,  // all of them, channel by channel
  kAveraged,   // their mean
};

// A CanvasSpec is of a tower that reads a canvas of tiles as one picture, and whose rows the
// language model looks at instead of reading them as tokens (Llama 3.2 Vision). The class token and
// the patches of a tile are rows; rows of zeros fill each tile up to a multiple of kRowMultiple,
// and so they fill tiles that the canvas does not have. Rows of zeros see the others, and not each
// other.
struct CanvasSpec {
  static constexpr int32_t kRowMultiple = 8;
  int32_t max_tiles = 0;  // 0: the tower is none of that kind
  // The second encoder reads what comes of VisionSpec::encoder behind its last norm, and its rows
  // are gated.
  DecoderSpec global;
  NameMap global_names;
  NameMap front_names;  // of what is added before and between the two
  // Layers of the first encoder whose outputs the projector reads beside those of the second.
  std::vector<int32_t> layers;

  bool any() const { return max_tiles > 0; }
};

// A picture is cut into square patches. Each becomes a row of the encoder, which reads them all in
// both directions; then the patches of a cell, side by side, become one embedding as wide as those of
// the language model's tokens.
struct VisionSpec {
  // With a class token before the patches vocab_size is 1, and its embedding is the table of tokens.
  // The first of pooling.layers makes rows of patches. Then come num_projector_layers that make
  // embeddings of cells, and as many for each of tap_layers.
  DecoderSpec encoder;
  NameMap names;
  // The names of the tower's tensors begin so. The checkpoint calls the i-th of pooling.layers, and
  // the norm of its input if it has one, what `names` calls "dense.{i}" and "dense_norm.{i}".
  std::vector<std::string> tensor_prefixes;
  std::vector<std::string> dense_names;
  std::vector<std::string> dense_norm_names;

  int32_t image_size = 0;  // sides of the picture; 0: any that cells fill
  int32_t patch_size = 0;  // sides of a patch
  int32_t merge_size = 1;  // a cell is so many patches each way
  PictureFit fit = PictureFit::kMiddle;
  int32_t num_frames = 1;  // a patch is so many frames of a film, all alike
  // A patch is read pixel by pixel, and not channel by channel; then it is one frame.
  bool channels_last = false;
  int32_t max_cells = 0;   // of a picture of any size; at most kMaxCells
  int32_t max_tokens = 0;  // of a picture of any kind, if that is bounded
  static constexpr int32_t kMaxCells = 2048;
  PatchPositions positions = PatchPositions::kNone;
  // That a picture may be cut into, all in one item with a line break behind each row: then the last of
  // pooling.layers makes the line break of a 1.
  std::vector<TileGrid> grids;
  CanvasSpec canvas;                    // any(): then `grids` are the canvases that there are
  int32_t window_cells = 0;             // sides of a window; 0: all layers see the whole picture
  std::vector<bool> layer_has_windows;  // per layer, with window_cells
  int32_t num_projector_layers = 2;
  CellRows cells = CellRows::kJoined;
  // Layers from whose output more embeddings are made, for the language model's first layers: the
  // i-th is added to the output of its layer i.
  std::vector<int32_t> tap_layers;
  bool drops_class_token = true;    // before the projector
  bool is_bidirectional = false;    // the tokens of a picture see each other
  bool has_grid_positions = false;  // tokens have rows and columns (RopeSpec::pair_axes)
  // A channel x, 0 to 255, enters as (x - 255 mean) / (255 std), CLIP's unless a family has its own.
  std::array<float, 3> mean = {0.48145466f, 0.4578275f, 0.40821073f};
  std::array<float, 3> std = {0.26862954f, 0.26130258f, 0.27577711f};
  bool centers_channels = false;  // then 2 x - 1 of that enters
  TokenId placeholder = -1;       // the token whose place in a prompt an image takes
  PictureText text;

  bool has_class_token() const { return encoder.vocab_size > 0; }
  int32_t cell_size() const { return patch_size * merge_size; }
  int32_t patches_per_cell() const { return merge_size * merge_size; }
  int32_t most_cells() const {
    const int32_t side = image_size / std::max(1, cell_size());
    return image_size > 0 ? side * side : max_cells;
  }
  // These are of a picture of so many cells; max_rows() is that of the largest.
  int32_t num_rows(int32_t num_cells) const {
    return num_cells * patches_per_cell() + (has_class_token() ? 1 : 0);
  }
  int32_t num_embeddings(int32_t num_cells) const {
    return num_cells + (has_class_token() && !drops_class_token ? 1 : 0);
  }
  int32_t max_rows() const { return num_rows(most_cells()); }
  // With `canvas`, returns the rows of the language model's source, those of all tiles.
  int32_t source_rows() const { return canvas.max_tiles * max_rows(); }
  int32_t tile_embeddings() const { return num_embeddings(most_cells()); }
  // Returns at most how many embeddings a picture has that is cut into such a grid.
  int32_t grid_embeddings(const TileGrid& grid) const {
    return tile_embeddings() * (1 + grid.size()) + grid.rows * (image_size / cell_size());
  }
  // Returns at most how many embeddings an item has; max_tiles() counts its tiles, the whole
  // picture among them.
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
  // A picture of C cells has at most so many windows: along each side, one more than fill it.
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
  // embedding_width() is the elements of an embedding; embedding_size() adds what is added to
  // layers' outputs.
  int64_t embedding_width() const { return encoder.pooling.layers.back().num_outputs; }
  int64_t embedding_size() const {
    return embedding_width() * (1 + static_cast<int64_t>(tap_layers.size()));
  }
};

}  // namespace quire
