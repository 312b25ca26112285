// Positions on three axes say where the tokens of a request stand in time and on its pictures
// (MRoPE, Qwen2-VL).
#pragma once

#include <cstdint>
#include <span>

#include "core/media.h"

namespace quire {

// Writes to out [count, 3] the time, row and column of tokens [begin, begin + count). The three
// positions of a text token are equal: one more than the greatest before it. A picture begins at
// that position, too, and all its tokens have the same time. An embedding covers `cell_size` pixels
// of a picture each way; with 0, pictures are numbered like text. The result depends only on the
// token's index and on the items before it (law L4).
void write_axis_positions(std::span<const MediaSpan> media, int32_t cell_size, int32_t begin,
                          int32_t count, int32_t* out);

}  // namespace quire
