// Which pictures a model takes, and how a prompt writes them: what whoever reads its configuration
// tells whoever makes pictures ready.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace quire {

// How a picture is made one that the model takes.
enum class PictureFit : uint8_t {
  kMiddle,  // a square of one size: the shorter side is made to fit, and the middle cut out (CLIP)
  kStretched,  // a square of one size, whatever its shape was (SigLIP)
  kNearest,    // both sides become the nearest multiples of a cell's (Qwen2-VL)
  kRoundedUp,  // or the next ones, and the longer side has an end (Pixtral)
  kMostCells,  // as many whole cells as there may be, with its shape kept (Gemma 4)
  // Squares of one size, of which the whole picture is one:
  kBestGrid,  // and others those of a grid that it is fitted into with its shape kept; they make
              // one item, in which the grid's rows go on from tile to tile (LLaVA-NeXT)
  kNearestRatio,  // and others those of the grid whose shape is nearest (InternVL)
  kLongestEdge,   // and others those that fill it, the longer side made to fit (Idefics3)
  // Or into the best of several canvases of squares, with its shape kept and black beside it. The model
  // looks at what comes of it: it takes the place of no token (Llama 3.2 Vision).
  kBestCanvas,
};

struct TileGrid {
  int32_t rows = 0;
  int32_t columns = 0;

  int32_t size() const { return rows * columns; }
};

struct PictureShape {
  PictureFit fit = PictureFit::kMiddle;
  int32_t image_size = 0;      // sides of a square
  int32_t num_embeddings = 0;  // of one
  int32_t cell_size = 0;       // sides of a cell, which becomes one embedding
  int32_t max_cells = 0;
  int32_t max_tokens = 0;       // of a picture with all its tiles; 0: no bound
  std::vector<TileGrid> grids;  // of kBestGrid and kBestCanvas

  // Tiles of a picture beside its whole, at most.
  int32_t max_tiles(int32_t wanted) const {
    if (max_tokens == 0) return wanted;
    return std::min(wanted, max_tokens / num_embeddings - 1);
  }

  // A model takes one picture, which all tokens of a prompt look at.
  bool is_source() const { return fit == PictureFit::kBestCanvas; }
  bool is_square() const {
    return fit != PictureFit::kNearest && fit != PictureFit::kRoundedUp &&
           fit != PictureFit::kMostCells;
  }
};

// What a prompt says around a picture and the crops of it that follow, which are written as pictures are.
struct CropText {
  std::string before_whole;
  std::string behind_whole;
  std::string between;  // two crops
};

// How a prompt writes an image, where that is more than one placeholder: `marker`, as chat templates
// write it, becomes
//
//   before, the tiles row by row with `between` between rows, behind_tiles, whole, after
//
// of which each of `tile` and `whole` holds one placeholder. Of a picture that is not cut into tiles
// there is the whole alone.
struct PictureText {
  std::string marker;  // empty: the placeholder stands by itself
  std::string before;
  std::string tile;  // "{row}" and "{column}" stand for its place, from 1 on
  std::string between;
  std::string behind_tiles;
  std::string whole;
  std::string after;
  bool has_rows = false;  // the tiles are rows of embeddings, of a picture in cells
  CropText crops = {};    // of pictures with crops (Gemma 3's pan and scan)
};

}  // namespace quire
