// Which pictures a model takes, and how a prompt writes them. The code that reads a model's
// configuration fills this in for the code that prepares pictures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace quire {

// How a picture is made to fit the model.
enum class PictureFit : uint8_t {
  kMiddle,  // a square of one size: the shorter side is made to fit, and the middle cut out (CLIP)
  kStretched,  // a square of one size, whatever the picture's shape was (SigLIP)
  kNearest,    // both sides become the nearest multiples of a cell's sides (Qwen2-VL)
  kRoundedUp,  // both sides become the next larger multiples; the longer one is bounded (Pixtral)
  kMostCells,  // as many whole cells as are allowed, with the picture's shape kept (Gemma 4)
  // Squares of one size. One of them shows the whole picture, the others are tiles of it:
  // The tiles are those of the grid that fits best, into which the picture is fitted with its shape
  // kept. All squares are one item, in which the grid's rows run across its tiles (LLaVA-NeXT).
  kBestGrid,
  kNearestRatio,  // the tiles are those of the grid whose shape is nearest (InternVL)
  kLongestEdge,   // the tiles cover the picture, whose longer side is made to fit (Idefics3)
  // The picture is fitted into the best of several canvases of squares, with its shape kept and the
  // rest black. It stands for no token: it is a source that all tokens attend to (Llama 3.2
  // Vision).
  kBestCanvas,
};

struct TileGrid {
  int32_t rows = 0;
  int32_t columns = 0;

  int32_t size() const { return rows * columns; }
};

struct PictureShape {
  PictureFit fit = PictureFit::kMiddle;
  int32_t image_size = 0;      // side of a square
  int32_t num_embeddings = 0;  // of one square
  int32_t cell_size = 0;       // side of a cell, which becomes one embedding
  int32_t max_cells = 0;
  int32_t max_tokens = 0;       // of a picture with all its tiles; 0: no bound
  std::vector<TileGrid> grids;  // for kBestGrid and kBestCanvas

  // Returns the most tiles, at least 0 and at most `wanted`, that a picture may have beside its
  // whole.
  int32_t max_tiles(int32_t wanted) const {
    if (max_tokens == 0 || num_embeddings == 0) return wanted;
    return std::clamp(max_tokens / num_embeddings - 1, 0, std::max(0, wanted));
  }

  // Whether the picture is a source that all tokens of a prompt attend to; a request has one at
  // most.
  bool is_source() const { return fit == PictureFit::kBestCanvas; }
  bool is_square() const {
    return fit != PictureFit::kNearest && fit != PictureFit::kRoundedUp &&
           fit != PictureFit::kMostCells;
  }
};

// The text that a prompt has around a picture and its crops. The crops follow the picture, and each
// is written like a picture.
struct CropText {
  std::string before_whole;
  std::string behind_whole;
  std::string between;  // between two crops
};

// The text that stands for an image in a prompt, for models that need more than one placeholder.
// `marker`, which chat templates write, is replaced by
//
//   before, the tiles row by row with `between` between rows, behind_tiles, whole, after
//
// where each of `tile` and `whole` has one placeholder. For a picture without tiles, the tiles and
// behind_tiles are left out.
struct PictureText {
  std::string marker;  // empty: the placeholder itself
  std::string before;
  std::string tile;  // "{row}" and "{column}" are replaced by the tile's place, from 1 on
  std::string between;
  std::string behind_tiles;
  std::string whole;
  std::string after;
  bool has_rows = false;  // each tile is one row of the embeddings of a picture in cells
  CropText crops = {};    // for pictures with crops (Gemma 3's pan and scan)
};

}  // namespace quire
