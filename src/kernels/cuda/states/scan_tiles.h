// The inputs of a chain's tokens for a block of state columns, in tiles of a few tokens that go
// through a ring in shared memory, so that no token waits for memory.
#pragma once

#include "kernels/cuda/states/state_columns.h"

namespace quire::cuda {

inline constexpr int kTileTokens = 8;
inline constexpr int kTilesInRing = 3;

// Walks the tiles of a chain one after the other. A tile ends where its segment does.
struct TileCursor {
  int32_t segment;
  int32_t begin;  // the tile's first token
  int32_t end;    // the end of the segment

  QUIRE_DEVICE bool has_tile() const { return begin < end; }
  QUIRE_DEVICE int32_t num_tokens() const {
    return end - begin < kTileTokens ? end - begin : kTileTokens;
  }
  QUIRE_DEVICE bool ends_segment() const { return end - begin <= kTileTokens; }
  QUIRE_DEVICE void go_on(const StateSegments& segments) {
    const bool next_segment = ends_segment();
    begin += num_tokens();
    if (!next_segment || !continues_chain(segments, segment + 1)) return;
    ++segment;
    end = segments.start_loc[segment + 1];
  }
};
QUIRE_DEVICE TileCursor first_tile(const StateSegments& segments, int32_t segment) {
  return {segment, segments.start_loc[segment], segments.start_loc[segment + 1]};
}

// Rows of an input: that of token t begins at data + t * stride and has `size` floats.
struct TokenRows {
  const float* data;
  int64_t stride;
  int32_t size;

  QUIRE_DEVICE bool in_whole_pieces() const {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % 4 == 0 && size % 4 == 0;
  }
};
// Returns float number `at` of each row, together with the rest of its piece of 16 bytes, if rows
// have whole pieces.
QUIRE_DEVICE TokenRows piece_of(const float* data, int64_t stride, int32_t at) {
  const TokenRows piece{data + (at - at % 4), stride, 4};
  return piece.in_whole_pieces() ? piece : TokenRows{data + at, stride, 1};
}
// Returns the index of the float in that piece.
QUIRE_DEVICE int place_in_piece(const TokenRows& piece, int32_t at) {
  return piece.size == 4 ? at % 4 : 0;
}

// Starts copying a tile's rows to `to` in shared memory, kWidth floats per token, with zeros past
// the end of a row. Rows that do not consist of whole pieces of 16 bytes are copied before it
// returns.
template <typename Form, int kWidth>
QUIRE_DEVICE void fetch_rows(const TokenRows& rows, const TileCursor& tile, float* to) {
  constexpr int kPieces = kWidth / 4;
  const bool whole_pieces = rows.in_whole_pieces();
  const int num_pieces = tile.num_tokens() * kPieces;
  for (int i = ptx::thread_index(); i < num_pieces; i += Form::kThreads) {
    const int at = i % kPieces * 4;
    const float* from = rows.data + (tile.begin + i / kPieces) * rows.stride;
    if (whole_pieces) {
      const bool valid = at < rows.size;
      ptx::copy_async_16(to + 4 * i, valid ? from + at : from, valid);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) to[4 * i + j] = at + j < rows.size ? from[at + j] : 0.0f;
    }
  }
}

// The layout of a tile's inputs in its part of the ring: kRowInputs inputs with a float per row of
// a column, then kColumnInputs with one per column, then kPieceInputs with a piece per token.
template <typename Form, int kRowInputs, int kColumnInputs, int kPieceInputs>
struct TileLayout {
  static constexpr int kRowFloats = kTileTokens * Form::kPaddedRows;
  static constexpr int kColumnFloats = kTileTokens * kBlockColumns;
  static constexpr int kPieceFloats = kTileTokens * 4;
  static constexpr int kFloats =
      kRowInputs * kRowFloats + kColumnInputs * kColumnFloats + kPieceInputs * kPieceFloats;

  static constexpr int rows(int input) { return input * kRowFloats; }
  static constexpr int columns(int input) {
    return kRowInputs * kRowFloats + input * kColumnFloats;
  }
  static constexpr int pieces(int input) {
    return kRowInputs * kRowFloats + kColumnInputs * kColumnFloats + input * kPieceFloats;
  }
};

}  // namespace quire::cuda
