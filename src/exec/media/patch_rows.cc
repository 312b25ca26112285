#include "exec/media/patch_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/api/embedding.h"

namespace quire {
namespace {

void add_scaled(const float* from, float scale, int64_t width, float* to) {
  for (int64_t i = 0; i < width; ++i) to[i] += scale * from[i];
}

// The encoder reads a channel's value x, 0 to 255, as (x - mean) / std.
struct ChannelScale {
  float mean, std;
};
ChannelScale scale_of(const VisionSpec& spec, size_t channel) {
  const float mean = spec.mean[channel] * 255.0f, std = spec.std[channel] * 255.0f;
  if (!spec.centers_channels) return {mean, std};
  return {mean + 0.5f * std, 0.5f * std};
}

// The two of a table's `side` rows that one of `size` patches lies between, when the table is
// stretched over them.
struct Between {
  int64_t first = 0;
  int64_t second = 0;
  float second_weight = 0.0f;
};
Between between(int32_t place, int64_t size, int64_t side) {
  const float at = static_cast<float>(place) * static_cast<float>(side - 1) /
                   static_cast<float>(std::max<int64_t>(size - 1, 1));
  const auto first = std::min(static_cast<int64_t>(at), side - 1);
  return {first, std::min(first + 1, side - 1), at - static_cast<float>(first)};
}

// Returns how many rows of the table of positions are stored as floats: all, or those of the
// current patches.
int64_t num_kept_positions(const VisionSpec& spec) {
  return spec.positions == PatchPositions::kPerAxis ? 2 * DecoderLimits::kMaxPooledRows
                                                    : spec.encoder.num_positions;
}

}  // namespace

void cut_patch(const VisionSpec& spec, const PicturePixels& picture, const PatchPlace& place,
               float* out) {
  const int64_t size = spec.patch_size;
  const int64_t step = spec.channels_last ? 3 : 1;  // between the values of neighbouring pixels
  float* to = out;
  for (size_t channel = 0; channel < 3; ++channel) {
    const auto [mean, std] = scale_of(spec, channel);
    if (spec.channels_last) to = out + channel;
    const float* const frame = to;
    for (int64_t y = place.y * size; y < (place.y + 1) * size; ++y) {
      const int64_t row = (y * picture.width + place.x * size) * 3 + static_cast<int64_t>(channel);
      for (int64_t x = 0; x < size; ++x) {
        *to = (static_cast<float>(picture.rgb[row + x * 3]) - mean) / std;
        to += step;
      }
    }
    for (int32_t more = 1; more < spec.num_frames; ++more) to = std::copy_n(frame, size * size, to);
  }
}

int64_t PatchRows::arena_bytes(const VisionSpec& spec) {
  const int64_t width = spec.encoder.hidden_size;
  const auto floats = [](int64_t count) { return Arena::padded(count * int64_t{sizeof(float)}); };
  return floats(DecoderLimits::kMaxPooledRows * spec.patch_elements()) + floats(width) +
         floats(num_kept_positions(spec) * width);
}

PatchRows::PatchRows(const VisionSpec& spec, const DecoderWeights& weights, Decoder& decoder,
                     Stream& stream, Arena& arena)
    : spec_(spec), table_(weights.position_embedding()), decoder_(decoder), stream_(stream) {
  const int64_t width = spec.encoder.hidden_size, num_positions = spec.encoder.num_positions;
  patches_ = arena.allocate<float>(DecoderLimits::kMaxPooledRows * spec.patch_elements());
  class_row_ = arena.allocate<float>(width);
  positions_ = arena.allocate<float>(num_kept_positions(spec) * width);
  table_side_ = std::llround(std::sqrt(static_cast<double>(num_positions)));
  if (spec.positions != PatchPositions::kPerAxis) read_table(table_, num_positions, positions_);
  if (!spec.has_class_token()) return;
  read_table(weights.token_embedding(), 1, class_row_);
  if (spec.positions == PatchPositions::kRows) add_scaled(positions_, 1.0f, width, class_row_);
}

// Reads the rows as float32.
void PatchRows::read_table(const TableWeight& table, int64_t num_rows, float* out) {
  ids_.resize(static_cast<size_t>(num_rows));
  std::iota(ids_.begin(), ids_.end(), 0);
  if (num_rows > 0) read_rows(table, out);
}

void PatchRows::read_rows(const TableWeight& table, float* out) const {
  embedding(stream_, {.token_ids = ids_.data(),
                      .table = table.data,
                      .packed_table = table.packed ? &*table.packed : nullptr,
                      .table_dtype = table.dtype,
                      .out = out,
                      .num_tokens = std::ssize(ids_),
                      .hidden_size = spec_.encoder.hidden_size});
}

void PatchRows::embed(const PicturePixels& picture, const PictureGrid& grid, float* rows) {
  const int64_t width = spec_.encoder.hidden_size;
  if (spec_.has_class_token()) rows = std::copy_n(class_row_, width, rows);
  const auto num_patches = static_cast<int64_t>(grid.patches.size());
  for (int64_t first = 0; first < num_patches; first += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, num_patches - first);
    cut(picture, grid, first, count);
    decoder_.head().pooling_layer(0, patches_, rows + first * width, count);
  }
  add_positions(grid, rows);
}

// Cuts patches [first, first + count) of the grid's order.
void PatchRows::cut(const PicturePixels& picture, const PictureGrid& grid, int64_t first,
                    int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    cut_patch(spec_, picture, grid.patches[static_cast<size_t>(first + i)],
              patches_ + i * spec_.patch_elements());
  }
}

void PatchRows::add_positions(const PictureGrid& grid, float* rows) {
  if (spec_.positions == PatchPositions::kNone) return;
  if (spec_.positions == PatchPositions::kPerAxis) return add_per_axis(grid, rows);
  const int64_t width = spec_.encoder.hidden_size;
  const int64_t first = spec_.has_class_token() ? 1 : 0;
  const int64_t per_row = int64_t{grid.width} * spec_.merge_size;
  for (const PatchPlace& place : grid.patches) {
    if (spec_.positions == PatchPositions::kRows) {
      const int64_t row = first + place.y * per_row + place.x;
      add_scaled(positions_ + row * width, 1.0f, width, rows);
    } else {
      add_resampled(grid, place, rows);
    }
    rows += width;
  }
}

void PatchRows::add_per_axis(const PictureGrid& grid, float* rows) {
  const int64_t width = spec_.encoder.hidden_size;
  const auto first_of_rows = static_cast<int32_t>(spec_.encoder.num_positions / 2);
  const auto num_patches = std::ssize(grid.patches);
  for (int64_t first = 0; first < num_patches; first += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, num_patches - first);
    ids_.clear();
    for (int64_t i = first; i < first + count; ++i) {
      const PatchPlace& place = grid.patches[static_cast<size_t>(i)];
      ids_.insert(ids_.end(), {place.x, first_of_rows + place.y});
    }
    read_rows(table_, positions_);
    for (int64_t i = 0; i < 2 * count; ++i)
      add_scaled(positions_ + i * width, 1.0f, width, rows + (first + i / 2) * width);
  }
}

void PatchRows::add_resampled(const PictureGrid& grid, const PatchPlace& place, float* row) const {
  const int64_t width = spec_.encoder.hidden_size, merge = spec_.merge_size;
  const Between y = between(place.y, grid.height * merge, table_side_);
  const Between x = between(place.x, grid.width * merge, table_side_);
  const auto add = [&](int64_t table_row, int64_t column, float weight) {
    add_scaled(positions_ + (table_row * table_side_ + column) * width, weight, width, row);
  };
  add(y.first, x.first, (1.0f - y.second_weight) * (1.0f - x.second_weight));
  add(y.first, x.second, (1.0f - y.second_weight) * x.second_weight);
  add(y.second, x.first, y.second_weight * (1.0f - x.second_weight));
  add(y.second, x.second, y.second_weight * x.second_weight);
}

}  // namespace quire
