// Round float weights to codes and scales, to nearest: pure functions over rows.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace quire {

// Returns e4m3 (fn) with saturation to +-448; NaN stays NaN.
uint8_t to_e4m3(float x);
float from_e4m3(uint8_t code);

// Returns the nearest value of `dtype` (F32, F16 or BF16). Scales are stored in 16 bits, and codes
// are chosen for the stored scale.
float rounded_to(float x, DType dtype);

// Writes codes[i] ~ row[i] / scale, in [-127, 127], and returns the scale: max|row| / 127 (1 for a
// row of zeros).
float round_to_int8(std::span<const float> row, std::span<int8_t> codes);

// Writes codes in [0, 2^bits), q = round(w / scale) + 2^(bits - 1), and one scale per `group_size`
// weights: max|w| over the middle of the range, rounded to `scale_type`.
void round_to_groups(std::span<const float> row, int bits, int64_t group_size, DType scale_type,
                     std::span<uint8_t> codes, std::span<float> scales);

// Packs one row of codes end to end in 32-bit words, lowest bits first.
void pack_words(std::span<const uint8_t> codes, int bits, std::span<uint32_t> words);

// Writes the e4m3 codes of row[i] / scale.
void round_to_e4m3(std::span<const float> row, float scale, std::span<uint8_t> codes);

float largest_magnitude(std::span<const float> values);

}  // namespace quire
