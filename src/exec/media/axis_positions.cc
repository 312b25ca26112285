#include "exec/media/axis_positions.h"

#include <algorithm>

namespace quire {
namespace {

void write_text(int32_t begin, int32_t end, int32_t shift, int32_t* out) {
  for (int32_t token = begin; token < end; ++token) out = std::fill_n(out, 3, token + shift);
}

}  // namespace

void write_axis_positions(std::span<const MediaSpan> media, int32_t cell_size, int32_t begin,
                          int32_t count, int32_t* out) {
  const int32_t end = begin + count;
  int32_t shift = 0;     // of text tokens behind the pictures so far
  int32_t next = begin;  // the first token that has no positions yet
  for (const MediaSpan& span : media) {
    if (cell_size == 0 || span.begin >= end) break;
    const int32_t height = span.item->height / cell_size, width = span.item->width / cell_size;
    // The picture cannot be encoded, and its request fails.
    if (height <= 0 || width <= 0) continue;
    if (span.begin > next) {
      write_text(next, span.begin, shift, out + 3 * (next - begin));
      next = span.begin;
    }
    const int32_t time = span.begin + shift;
    for (; next < std::min(span.end, end); ++next) {
      const int32_t embedding = span.first + next - span.begin;
      int32_t* const to = out + 3 * (next - begin);
      to[0] = time;
      to[1] = time + embedding / width;
      to[2] = time + embedding % width;
    }
    shift += std::max(height, width) - span.num_tokens();
  }
  write_text(next, end, shift, out + 3 * (next - begin));
}

}  // namespace quire
